// Finds the NaN and Inf of the input after a sketch turned out not to be finite: how many, where, in which dataset.
// Called by solver.cpp on that failure only, so that good data pays nothing.
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

/// Non-finite elements of (rows, cols) row-major values; `limit` is the largest magnitude that passes.
NonFinite find_non_finite(const void* data, ElementType type, RowRange rows, std::int64_t cols, double limit);

/// Collective: reads all rows once more and throws Error{kNonFinite} naming dataset, count and first (row, column).
/// Returns normally only if every element of A and b can be held in FP32.
void throw_if_non_finite(RowSource& source, RowRange my_rows, std::int64_t chunk_rows, const Communicator& comm);

}  // namespace tallsketch
