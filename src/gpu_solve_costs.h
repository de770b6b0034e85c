// What each step takes beside one read of A on a GPU, as measured on an H200 (docs/performance.md), and what the cost model
// makes of it. Pure. Called by cuda_solve_costs for the device that there is, by gpu_planner and inspect --gpus for any.
#pragma once

#include <cstdint>

#include "src/cost_model.h"
#include "src/gpu_model.h"
#include "src/problem_shape.h"
#include "src/residency.h"
#include "src/step_costs.h"

namespace tallsketch {

/// rows  of the rank
StepCosts gpu_step_costs(const GpuModel& gpu, const ProblemShape& shape, std::int64_t rows);

SolveCosts gpu_solve_costs(const GpuModel& gpu, const ProblemShape& shape, std::int64_t rows, RowPlace place);

}  // namespace tallsketch
