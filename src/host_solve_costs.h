// The host backend's figures for the cost model: bandwidths and rates of one core, as measured (docs/performance.md).
// Called by host_backend.
#pragma once

#include <cstdint>

#include "src/cost_model.h"
#include "src/problem_shape.h"
#include "src/residency.h"

namespace tallsketch {

/// rows  of this rank; kept: in memory, otherwise read from the file for every pass
SolveCosts host_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place, int threads);

}  // namespace tallsketch
