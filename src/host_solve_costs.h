// The host backend's figures: bandwidths and rates of one core, as measured (docs/performance.md), and what the cost model
// makes of them. Pure. Called by host_backend and machine_planner.
#pragma once

#include <cstdint>

#include "src/cost_model.h"
#include "src/problem_shape.h"
#include "src/residency.h"
#include "src/step_costs.h"

namespace tallsketch {

/// rows  of the rank
StepCosts host_step_costs(const ProblemShape& shape, std::int64_t rows, int threads);

/// rows  of this rank; kept: in memory, otherwise read from the file for every pass
SolveCosts host_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place, int threads);

}  // namespace tallsketch
