// The slow, dense truth that every sketch is compared with: S as a matrix, and S [A | b] by plain loops in double.
// Called by the unit, mpi and cuda tests. Knows S only through sketch_entry(); what sketch_entry() itself promises is
// re-derived in tests/unit/sketch_rule_test.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sketch_spec.h"
#include "kernels/views.h"

namespace tallsketch {

/// Element (k, j) of a slab of any element type, as a double.
double element_of(const SlabView& slab, std::int64_t k, std::int64_t j);

/// Columns first_row, ..., first_row + rows - 1 of S as a dense matrix, unscaled: entries -1, 0, +1 (not / sqrt(zeta)).
/// result  (d, rows) row-major
std::vector<double> dense_sketch_matrix(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows);

/// S [A | b], unscaled, for the rows of the slabs; exact where every partial sum is an integer below 2^53.
/// a       (rows, n)
/// b       (rows, r), same rows and first_row as a; r may be 0
/// result  (d, n + r) row-major
/// Cost    d * rows tests and zeta * rows * (n + r) additions
std::vector<double> oracle_sketch(const SketchSpec& spec, const SlabView& a, const SlabView& b);

}  // namespace tallsketch
