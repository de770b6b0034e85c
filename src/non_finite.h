// Looks at the input once more, after a sketch left its number format's range: NaN and Inf, too large, too small; how
// many, where, in which dataset. Called by solver.cpp in that case only, so that good data pays nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "src/row_source.h"
#include "src/sketch_range.h"

namespace tallsketch {

class Communicator;

/// Count, and place of the first in row-major order.
struct NonFinite {
  std::int64_t count = 0;
  std::int64_t row = -1;  // global
  std::int64_t col = -1;
};

/// Elements of (rows, cols) row-major values whose magnitude is not accepted; 0 always is, NaN never.
NonFinite find_outside(const void* data, ElementType type, RowRange rows, std::int64_t cols, Magnitudes accepted);

/// Collective: reads all rows once more and throws Error{kNonFinite} naming dataset, count and first (row, column).
/// Returns normally only if every element of A and b is finite and, unless the sketch is made in FP64, in the range of
/// float32: 0 or between its normal numbers' ends. Of an A stored in at most 32 bits subnormal elements pass too.
void throw_if_out_of_range(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, SketchPrecision precision,
                           const Communicator& comm);

/// Collective: reads all rows once more. Returns the largest magnitude of every column of [A | b] over all ranks,
/// (n + r).
/// Errors  kNonFinite as above, for NaN and Inf only
std::vector<double> finite_column_maxima(RowSource& source, RowRange my_rows, std::int64_t chunk_rows,
                                         const Communicator& comm);

}  // namespace tallsketch
