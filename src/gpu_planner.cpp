#include "src/gpu_planner.h"

#include "src/device_row_limits.h"
#include "src/gpu_solve_costs.h"

namespace tallsketch {

namespace {

// CUDA and its libraries held 695 to 702 MiB (docs/performance.md, Matrices from files), and the backend leaves 512 MiB free.
constexpr std::int64_t kReserve = std::int64_t{1214} << 20;
// Of kernels, about: entry tables and partial sums, or rows widened for the Gram matrix; the plans of
// docs/results/2026-11-30-h200/streaming_solves.txt have 70 to 270 MiB.
constexpr std::int64_t kScratchBytes = std::int64_t{300} << 20;

}  // namespace

GpuPlanner::GpuPlanner(const GpuModel& gpu, ResidencyChoice residency, std::uint64_t memory_bytes)
    : gpu_(gpu),
      residency_(residency),
      memory_bytes_(memory_bytes > 0 ? static_cast<std::int64_t>(memory_bytes) : usable_memory(gpu)),
      memory_asked_(memory_bytes > 0) {}

std::int64_t GpuPlanner::usable_memory(const GpuModel& gpu) { return static_cast<std::int64_t>(gpu.memory) - kReserve; }

PlanLimits GpuPlanner::plan_limits(const SketchJob& job) {
  PlanLimits limits = device_row_limits(job, residency_);
  limits.memory_bytes = memory_bytes_;
  limits.memory_bound = memory_asked_ ? MemoryBound::kAsked : MemoryBound::kFree;
  limits.host_memory_bytes = static_cast<std::int64_t>(kHostShare * gpu_.host_memory);
  limits.scratch_bytes = [](std::int64_t) { return kScratchBytes; };
  return limits;
}

SolveCosts GpuPlanner::solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const {
  return gpu_solve_costs(gpu_, shape, rows, place);
}

}  // namespace tallsketch
