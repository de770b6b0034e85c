// For tests that need GPUs: as many as TALLSKETCH_TEST_DEVICES says (set by CTest; default 1).
#include <cstdlib>

#include <cuda_runtime_api.h>

#include "tests/support/requirement.h"

std::string tallsketch::test::missing_requirement() {
  const char* text = std::getenv("TALLSKETCH_TEST_DEVICES");
  const int wanted = text != nullptr ? std::atoi(text) : 1;
  int visible = 0;  // cudaGetDeviceCount leaves it untouched when there is no driver
  const cudaError_t status = cudaGetDeviceCount(&visible);
  if (status != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(status);
  if (visible < wanted)
    return "needs " + std::to_string(wanted) + " CUDA devices, " + std::to_string(visible) + " visible";
  return {};
}
