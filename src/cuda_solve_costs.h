// The CUDA backend's figures for the cost model: bandwidth of the device, and what each step takes beside one read of A, as
// measured on an H200 (docs/performance.md). Called by cuda_backend.
#pragma once

#include <cstdint>

#include "src/cost_model.h"
#include "src/problem_shape.h"
#include "src/residency.h"

namespace tallsketch {

/// Of the current device.
/// rows  of this rank
SolveCosts cuda_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place);

}  // namespace tallsketch
