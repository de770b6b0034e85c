// The CUDA backend's figures for the cost model: those of gpu_model and gpu_solve_costs, with the bandwidth, size and
// abilities of the device. Called by cuda_backend.
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
