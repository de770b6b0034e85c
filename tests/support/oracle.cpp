#include "tests/support/oracle.h"

#include <cstddef>

#include "kernels/half.h"
#include "kernels/sketch_rule.h"

namespace tallsketch {

double element_of(const SlabView& slab, std::int64_t k, std::int64_t j) {
  const std::int64_t at = k * slab.pitch + j;
  switch (slab.type) {
    case ElementType::kFloat32: return static_cast<double>(static_cast<const float*>(slab.data)[at]);
    case ElementType::kFloat64: return static_cast<const double*>(slab.data)[at];
    case ElementType::kFloat16: return half_to_double(static_cast<const std::uint16_t*>(slab.data)[at]);
    case ElementType::kBfloat16: return bfloat16_to_double(static_cast<const std::uint16_t*>(slab.data)[at]);
  }
  return 0.0;
}

std::vector<double> dense_sketch_matrix(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows) {
  std::vector<double> s(static_cast<std::size_t>(spec.d * rows), 0.0);  // (d, rows)
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int32_t t = 0; t < spec.zeta; ++t) {
      const SketchEntry entry = sketch_entry(spec, first_row + k, t);
      // +=, not =: two blocks that met in one sketch row would show as an entry of 0 or 2.
      s[static_cast<std::size_t>(entry.sketch_row * rows + k)] += entry.negative ? -1.0 : 1.0;
    }
  }
  return s;
}

std::vector<double> oracle_sketch(const SketchSpec& spec, const SlabView& a, const SlabView& b) {
  const std::vector<double> s = dense_sketch_matrix(spec, a.first_row, a.rows);
  const std::int64_t cols = a.cols + b.cols;
  std::vector<double> y(static_cast<std::size_t>(spec.d * cols), 0.0);  // (d, n + r)
  for (std::int64_t i = 0; i < spec.d; ++i) {
    for (std::int64_t k = 0; k < a.rows; ++k) {
      const double entry = s[static_cast<std::size_t>(i * a.rows + k)];
      if (entry == 0.0) continue;
      for (std::int64_t j = 0; j < cols; ++j) {
        const double value = j < a.cols ? element_of(a, k, j) : element_of(b, k, j - a.cols);
        y[static_cast<std::size_t>(i * cols + j)] += entry * value;
      }
    }
  }
  return y;
}

}  // namespace tallsketch
