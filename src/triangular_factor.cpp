#include "src/triangular_factor.h"

#include <algorithm>
#include <cmath>

#include "src/upper_triangle.h"

namespace tallsketch {

std::vector<double> upper_of(const TriangularFactor& factor) {
  const std::int64_t n = factor.n, cols = n + factor.r;
  std::vector<double> upper(static_cast<std::size_t>(cols * cols), 0.0);
  const UpperTriangle& r11 = factor.r11->on_host();
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) upper[static_cast<std::size_t>(j * cols + i)] = r11.at(i, j);
  }
  std::copy(factor.right.begin(), factor.right.end(), upper.begin() + n * cols);
  return upper;
}

void set_upper(const std::vector<double>& upper, TriangularFactor& factor) {
  const std::int64_t n = factor.n, cols = n + factor.r;
  factor.r11 = std::make_shared<UpperTriangle>(n, upper.data(), cols);
  factor.right.assign(upper.begin() + n * cols, upper.begin() + cols * cols);
  for (std::int64_t k = 0; k < factor.r; ++k) {
    std::fill(factor.right.begin() + k * cols + n + k + 1, factor.right.begin() + (k + 1) * cols, 0.0);
  }
}

std::vector<int> column_exponents(const std::vector<double>& column_max) {
  std::vector<int> exponents;
  for (const double largest : column_max) {
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    exponents.push_back(-exponent);
  }
  return exponents;
}

}  // namespace tallsketch
