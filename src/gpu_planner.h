// GpuPlanner: what a plan has to know of a GPU that is not here, from its figures. Pure. Used by inspect --gpus.
#pragma once

#include "src/backend.h"
#include "src/gpu_model.h"

namespace tallsketch {

class GpuPlanner final : public Planner {
 public:
  /// Bytes of the GPU that are left for a solve.
  static std::int64_t usable_memory(const GpuModel& gpu);
  /// memory_bytes  of the GPU that may be used; 0: usable_memory
  GpuPlanner(const GpuModel& gpu, ResidencyChoice residency, std::uint64_t memory_bytes);
  PlanLimits plan_limits(const SketchJob& job) override;
  SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const override;

 private:
  const GpuModel& gpu_;
  ResidencyChoice residency_;
  std::int64_t memory_bytes_;
  bool memory_asked_;
};

}  // namespace tallsketch
