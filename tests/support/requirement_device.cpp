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
  const char* hopper = std::getenv("TALLSKETCH_TEST_HOPPER");
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (hopper != nullptr && major != 9)
    return "needs a device of compute capability 9, this one has " + std::to_string(major);
  return {};
}
