// The sketch that the options ask for, and how it is told to people. Pure.
// Called by the solver, inspect and the benchmarks before anything is planned.
#pragma once

#include <string>

#include "kernels/check_rows.h"
#include "kernels/sketch_spec.h"
#include "src/options.h"
#include "src/problem_shape.h"

namespace tallsketch {

/// The valid spec for a problem. Errors: kUsage for d <= n, sizes that do not divide each other, kappa above the number
/// of blocks, options of the other family, a rounding without 16 bits, or sizes out of range.
SketchSpec make_sketch_spec(const ProblemShape& shape, const SketchOptions& options);

/// Rows held back: what was asked for, rounded up to what whole blocks like. At most 128 for 64 and default shapes.
std::int64_t check_row_count(const SketchOptions& options);

/// The rows of it that x is not made from: --check-rows, rounded up to what whole blocks like.
CheckRows held_back_rows(const SketchSpec& spec, const SketchOptions& options);

/// "sparsestack, permuted hash, d = 2048, zeta = 4"
std::string describe(const SketchSpec& spec);

}  // namespace tallsketch
