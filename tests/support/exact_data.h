// Test matrices of small integers: sums of them are exact in float in any order, so that sketches can be compared bit
// for bit between backends, rank counts and chunkings. A pure function of the global row and column.
// Called by the unit, mpi and cuda tests. Idea: nccl-tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/philox.h"

namespace tallsketch {

/// Largest magnitude of an entry: a float sums 2^24 / 8 = 2 million of them exactly, a half 2048 / 8 = 256.
inline constexpr int kExactMagnitude = 8;
inline constexpr std::uint64_t kExactDataSeed = 20240229;

/// Entry (row, col) of the endless test matrix: an integer in [-8, 8]. [A | b] is columns 0, ..., n + r - 1 of it.
inline int exact_entry(std::int64_t row, std::int64_t col) {
  const RandomWords words =
      random_words(kExactDataSeed, row, DrawPurpose::kMatrixEntries, static_cast<std::uint32_t>(col));
  return static_cast<int>(bounded(word_pair(words, 0), 2 * kExactMagnitude + 1)) - kExactMagnitude;
}

/// Integers whose last bits FP32 drops, and whose sums by the thousand FP64 holds: 2^30 + exact_entry.
inline double wide_exact_entry(std::int64_t row, std::int64_t col) { return 0x1p30 + exact_entry(row, col); }

/// An entry in the type of a buffer; std::uint16_t stands for a half's bit pattern.
template <class T>
T exact_entry_as(std::int64_t row, std::int64_t col) {
  return static_cast<T>(exact_entry(row, col));
}
template <>
inline std::uint16_t exact_entry_as<std::uint16_t>(std::int64_t row, std::int64_t col) {
  return float_to_half(static_cast<float>(exact_entry(row, col)));
}

/// What stands between the columns and the pitch: a NaN, so that whoever reads it is found out.
template <class T>
T exact_padding() {
  return std::numeric_limits<T>::quiet_NaN();
}
template <>
inline std::uint16_t exact_padding<std::uint16_t>() {
  return 0x7e00;
}

/// Rows first_row, ... and columns first_col, ... of the endless test matrix; T is float, double or std::uint16_t.
/// result  (rows, pitch) row-major; columns cols, ..., pitch - 1 are NaN
template <class T>
std::vector<T> make_exact_matrix(std::int64_t first_row, std::int64_t rows, std::int64_t first_col, std::int64_t cols,
                                 std::int64_t pitch) {
  std::vector<T> matrix(static_cast<std::size_t>(rows * pitch), exact_padding<T>());
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t j = 0; j < cols; ++j) {
      matrix[static_cast<std::size_t>(k * pitch + j)] = exact_entry_as<T>(first_row + k, first_col + j);
    }
  }
  return matrix;
}

}  // namespace tallsketch
