#include "src/scaled_source.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/half.h"
#include "src/triangular_factor.h"

namespace tallsketch {

namespace {

/// Nearest exponent whose power of two is a normal number of the type.
int clamp_exponent(int exponent, ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
      return std::clamp(exponent, std::numeric_limits<double>::min_exponent - 1,
                        std::numeric_limits<double>::max_exponent - 1);
    case ElementType::kFloat32:
    case ElementType::kBfloat16:  // float32's exponents
      return std::clamp(exponent, std::numeric_limits<float>::min_exponent - 1,
                        std::numeric_limits<float>::max_exponent - 1);
    case ElementType::kFloat16: return 0;
  }
  return 0;
}

/// data (rows, factor.size()) row-major; every element becomes times(element, factor of its column), computed in T.
template <class T, class Element, class F>
void scale_columns(Element* data, std::int64_t rows, const std::vector<double>& factor, F&& times) {
  const std::vector<T> narrow(factor.begin(), factor.end());  // exact: powers of two in the range of T
  const auto cols = static_cast<std::int64_t>(factor.size());
  for (std::int64_t i = 0; i < rows; ++i, data += cols) {
    for (std::int64_t j = 0; j < cols; ++j) data[j] = times(data[j], narrow[static_cast<std::size_t>(j)]);
  }
}
template <class T>
void scale_columns(T* data, std::int64_t rows, const std::vector<double>& factor) {
  scale_columns<T>(data, rows, factor, [](T value, T by) { return value * by; });
}

}  // namespace

std::vector<int> scaling_exponents(const std::vector<double>& column_max, const ProblemShape& shape) {
  std::vector<int> exponents = column_exponents(column_max);
  for (std::int64_t j = 0; j < shape.n + shape.r; ++j) {
    int& exponent = exponents[static_cast<std::size_t>(j)];
    exponent = clamp_exponent(exponent, j < shape.n ? shape.a_type : ElementType::kFloat64);
  }
  return exponents;
}

ScaledSource::ScaledSource(RowSource& source, const std::vector<int>& exponents) : source_(source) {
  for (const int exponent : exponents) {
    std::vector<double>& factor =
        static_cast<std::int64_t>(factor_a_.size()) < source.shape().n ? factor_a_ : factor_b_;
    factor.push_back(std::ldexp(1.0, exponent));
  }
}

void ScaledSource::read(RowRange rows, void* a, double* b) {
  source_.read(rows, a, b);
  switch (shape().a_type) {
    case ElementType::kFloat64: scale_columns(static_cast<double*>(a), rows.size(), factor_a_); break;
    case ElementType::kFloat32: scale_columns(static_cast<float*>(a), rows.size(), factor_a_); break;
    case ElementType::kBfloat16:
      scale_columns<float>(static_cast<std::uint16_t*>(a), rows.size(), factor_a_, [](std::uint16_t bits, float by) {
        return float_to_bfloat16(bfloat16_to_float(bits) * by);
      });
      break;
    case ElementType::kFloat16: break;
  }
  scale_columns(b, rows.size(), factor_b_);
}

}  // namespace tallsketch
