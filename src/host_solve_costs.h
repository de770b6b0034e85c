// The host backend's figures: bandwidths and rates of one core, as measured (docs/performance.md), and what the cost model
// makes of them. Pure. Called by host_backend and inspect --gpus host.
#pragma once

#include <cstdint>

#include "src/cost_model.h"
#include "src/problem_shape.h"
#include "src/residency.h"
#include "src/step_costs.h"

namespace tallsketch {

/// Bytes and FP64 operations a second.
struct HostModel {
  double read_rate = 0;  // of A by one core, read only; memory feeds four
  double flops = 0;      // of one core: dsyrk, Cholesky
  double file_rate = 0;  // assumed, for all kinds of files: contiguous ones in the page cache come at 8e9
};
/// Cores that others use too: what routes are compared by.
inline constexpr HostModel kLoadedHost = {6e9, 15e9, 1.5e9};
/// Cores of one's own (docs/scaling.md): what the scaling model predicts by.
inline constexpr HostModel kQuietHost = {26e9, 30e9, 1.5e9};

/// rows  of the rank
StepCosts host_step_costs(const HostModel& host, const ProblemShape& shape, std::int64_t rows, int threads);

/// rows  of this rank
SolveCosts host_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place, int threads);

}  // namespace tallsketch
