// [A | b] in memory, A in any element type, for tests of one pass over its rows against a plain loop.
// Called by normal_product_host_test and host_gram_test.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/views.h"
#include "tests/support/elements.h"
#include "tests/support/exact_data.h"

namespace tallsketch {

/// Rows of a chunk that holds all.
inline constexpr std::int64_t kAllRows = std::int64_t{1} << 62;

struct StoredProblem {
  std::int64_t m, n, r, pitch_a, pitch_b;
  ElementType type;
  std::vector<std::byte> a;  // (m, pitch_a)
  std::vector<double> b;     // (m, pitch_b)

  SlabView view_a(std::int64_t begin, std::int64_t rows) const {
    return {a.data() + begin * pitch_a * element_size(type), rows, n, pitch_a, type, begin};
  }
  SlabView view_b(std::int64_t begin, std::int64_t rows) const {
    return {b.data() + begin * pitch_b, rows, r, pitch_b, ElementType::kFloat64, begin};
  }
  /// Entry (i, j) of [A | b], as stored.
  double at(std::int64_t i, std::int64_t j) const {
    return j < n ? load_element(type, a.data() + (i * pitch_a + j) * element_size(type))
                 : b[static_cast<std::size_t>(i * pitch_b + j - n)];
  }
};

/// [A | b] with entries that a function of (row, column) gives. NaN stands between the columns and the pitch.
template <class Entry>
StoredProblem make_stored_problem(ElementType type, std::int64_t m, std::int64_t n, std::int64_t r,
                                  std::int64_t more_pitch, Entry entry) {
  StoredProblem p{m, n, r, n + more_pitch, r + more_pitch, type, {}, {}};
  const std::int64_t size = element_size(type);
  p.a.resize(static_cast<std::size_t>(m * p.pitch_a * size));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < p.pitch_a; ++j) {
      store_element(type, j < n ? entry(i, j) : std::nan(""), p.a.data() + (i * p.pitch_a + j) * size);
    }
    for (std::int64_t k = 0; k < p.pitch_b; ++k) p.b.push_back(k < r ? entry(i, n + k) : std::nan(""));
  }
  return p;
}

/// Integers in [-8, 8], whose products have the same sum in any order.
inline double exact_real_entry(std::int64_t row, std::int64_t col) {
  return static_cast<double>(exact_entry(row, col));
}

/// Reals in [-1, 1), whose sums depend on their order.
inline double real_entry(std::int64_t row, std::int64_t col) {
  const RandomWords words = random_words(7, row, DrawPurpose::kMatrixEntries, static_cast<std::uint32_t>(col));
  return static_cast<double>(words.word[0]) * 0x1p-31 - 1.0;
}

inline StoredProblem make_exact_stored_problem(ElementType type, std::int64_t m, std::int64_t n, std::int64_t r,
                                               std::int64_t more_pitch = 0) {
  return make_stored_problem(type, m, n, r, more_pitch, exact_real_entry);
}

/// The columns of A scaled by powers of ten from 1 to 10^-decades.
inline StoredProblem make_real_stored_problem(ElementType type, std::int64_t m, std::int64_t n, std::int64_t r,
                                              int decades = 0) {
  return make_stored_problem(type, m, n, r, 0, [&](std::int64_t row, std::int64_t col) {
    const double scale = col < n ? std::pow(10.0, -static_cast<double>(col * decades) / static_cast<double>(n)) : 1.0;
    return real_entry(row, col) * scale;
  });
}

}  // namespace tallsketch
