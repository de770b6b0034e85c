// GpuPlanner: what a plan has to know of a GPU that is not here, from its figures. Pure. Used by inspect --gpus.
#pragma once

#include "src/backend.h"
#include "src/gpu_model.h"

namespace tallsketch {

class GpuPlanner final : public Planner {
 public:
  /// memory_bytes  of the GPU that may be used; 0: what the figures say
  GpuPlanner(const GpuModel& gpu, ResidencyChoice residency, std::uint64_t memory_bytes);
  PlanLimits plan_limits(const SketchJob& job) override;
  SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const override;

 private:
  const GpuModel& gpu_;
  ResidencyChoice residency_;
  std::int64_t memory_bytes_;
};

}  // namespace tallsketch
