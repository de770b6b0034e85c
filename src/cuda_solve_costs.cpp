#include "src/cuda_solve_costs.h"

#include "kernels/strip_engine.h"
#include "src/cuda_handles.h"
#include "src/cuda_strip.h"
#include "src/gpu_model.h"
#include "src/gpu_solve_costs.h"

namespace tallsketch {

namespace {

constexpr double kReadShare = 0.925;  // of the bandwidth on paper, that a kernel reads

/// An H200 with the memory, multiprocessors and copy engine of the current device.
GpuModel current_gpu() {
  GpuModel gpu = gpu_model("h200");
  gpu.limits = limits_of_current_device();
  check(cuda::strip_engine_available(&gpu.bulk_copies));
  int device = 0, clock = 0, width = 0;  // kHz, bits
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, device));
  check(cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, device));
  if (clock > 0 && width > 0) gpu.read_rate = kReadShare * 2 * 1e3 * clock * (width / 8.0);
  return gpu;
}

}  // namespace

SolveCosts cuda_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) {
  return gpu_solve_costs(current_gpu(), shape, rows, place);
}

}  // namespace tallsketch
