// Finds what FP32 cannot hold in the input, after a sketch turned out not to be finite or to have a column of next to
// nothing: NaN and Inf, too large, too small; how many, where, in which dataset.
// Called by solver.cpp in that case only, so that good data pays nothing.
#pragma once

#include <cstdint>

#include "src/row_source.h"

namespace tallsketch {

class Communicator;

/// Count, and place of the first in row-major order.
struct NonFinite {
  std::int64_t count = 0;
  std::int64_t row = -1;  // global
  std::int64_t col = -1;
};

/// Magnitudes that pass: 0, and [least, most].
struct Magnitudes {
  double least = 0;
  double most = 0;
};

/// Elements of (rows, cols) row-major values that do not pass; NaN never does.
NonFinite find_outside(const void* data, ElementType type, RowRange rows, std::int64_t cols, Magnitudes pass);

/// Collective: reads all rows once more and throws Error{kNonFinite} naming dataset, count and first (row, column).
/// Returns normally only if every element of A and b is 0 or a normal FP32 number.
void throw_if_out_of_range(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, const Communicator& comm);

}  // namespace tallsketch
