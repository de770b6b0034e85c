#include "src/sketch_factor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <cblas.h>
#include <lapacke.h>

#include "src/error.h"

namespace tallsketch {

namespace {

lapack_int geqrf(lapack_int rows, lapack_int cols, float* a, float* tau) {
  return LAPACKE_sgeqrf(LAPACK_COL_MAJOR, rows, cols, a, rows, tau);
}
lapack_int geqrf(lapack_int rows, lapack_int cols, double* a, double* tau) {
  return LAPACKE_dgeqrf(LAPACK_COL_MAJOR, rows, cols, a, rows, tau);
}

}  // namespace

template <class T>
std::vector<double> column_maxima(const std::vector<T>& matrix, std::int64_t d, std::int64_t cols) {
  std::vector<double> column_max(static_cast<std::size_t>(cols), 0.0);
  for (std::int64_t i = 0; i < d; ++i) {
    const T* row = matrix.data() + i * cols;
    for (std::int64_t j = 0; j < cols; ++j) {
      double& largest = column_max[static_cast<std::size_t>(j)];
      largest = std::max(largest, std::fabs(double{row[j]}));
    }
  }
  return column_max;
}

template <class T>
TriangularFactor qr_of_sketch(const std::vector<T>& sketch, std::int64_t d, std::int64_t n, std::int64_t r,
                              double scale, const CheckRows& unused) {
  const std::int64_t cols = n + r;
  TriangularFactor factor{
      n, r, kUnitRoundoffOf<T>, FactorMethod::kQr, column_exponents(column_maxima(sketch, d, cols)), nullptr, {}};

  // Column-major copy in blocks that stay in cache; the power of two is exact, 1 / sqrt(zeta) is one rounding.
  std::vector<T> q(static_cast<std::size_t>(d * cols));
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t i0 = 0; i0 < d; i0 += kBlock) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const int exponent = factor.exponent[static_cast<std::size_t>(j)];
      for (std::int64_t i = i0; i < std::min(d, i0 + kBlock); ++i) {
        const double value = scale * std::ldexp(double{sketch[static_cast<std::size_t>(i * cols + j)]}, exponent);
        q[static_cast<std::size_t>(j * d + i)] = unused.holds(i) ? T{0} : static_cast<T>(value);
      }
    }
  }
  std::vector<T> tau(static_cast<std::size_t>(cols));
  const lapack_int info = geqrf(checked_int(d, "d"), checked_int(cols, "n + r"), q.data(), tau.data());
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate its QR workspace");
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_?geqrf returned {}", info));
  std::vector<double> upper(static_cast<std::size_t>(cols * cols), 0.0);
  for (std::int64_t j = 0; j < cols; ++j) {
    std::copy_n(q.begin() + j * d, std::min(j + 1, d), upper.begin() + j * cols);
  }
  set_upper(upper, factor);
  return factor;
}

template std::vector<double> column_maxima(const std::vector<float>&, std::int64_t, std::int64_t);
template std::vector<double> column_maxima(const std::vector<double>&, std::int64_t, std::int64_t);
template TriangularFactor qr_of_sketch(const std::vector<float>&, std::int64_t, std::int64_t, std::int64_t, double,
                                       const CheckRows&);
template TriangularFactor qr_of_sketch(const std::vector<double>&, std::int64_t, std::int64_t, std::int64_t, double,
                                       const CheckRows&);

template <class T>
std::vector<double> residual_of_sketch(const std::vector<T>& sketch, std::int64_t d, std::int64_t n, std::int64_t r,
                                       double scale, const std::vector<double>& x) {
  std::vector<double> residual(static_cast<std::size_t>(d * r));
  for (std::int64_t i = 0; i < d; ++i) {
    const T* const row = sketch.data() + i * (n + r);
    for (std::int64_t k = 0; k < r; ++k) {
      double sum = double{row[n + k]};
      for (std::int64_t j = 0; j < n; ++j) sum -= double{row[j]} * x[static_cast<std::size_t>(j * r + k)];
      residual[static_cast<std::size_t>(i * r + k)] = scale * sum;
    }
  }
  return residual;
}

template std::vector<double> residual_of_sketch(const std::vector<float>&, std::int64_t, std::int64_t, std::int64_t,
                                                double, const std::vector<double>&);
template std::vector<double> residual_of_sketch(const std::vector<double>&, std::int64_t, std::int64_t, std::int64_t,
                                                double, const std::vector<double>&);

double ridge_square(const GramOrigin& origin, std::int64_t j) {
  const int exponent = origin.exponents.empty() ? 0 : origin.exponents[static_cast<std::size_t>(j)];
  return std::ldexp(origin.ridge, 2 * exponent);
}

std::vector<int> gram_exponents(const std::vector<double>& diagonal) {
  std::vector<double> norms;
  for (const double square : diagonal) norms.push_back(std::sqrt(square));
  return column_exponents(norms);
}

std::optional<TriangularFactor> cholesky_of_gram(std::vector<double> gram, std::int64_t n, std::int64_t r,
                                                 const GramOrigin& origin) {
  const std::int64_t cols = n + r;
  const int width = checked_int(cols, "n + r"), order = static_cast<int>(n), rhs = static_cast<int>(r);
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& {
    return gram[static_cast<std::size_t>(j * cols + i)];
  };
  std::vector<double> diagonal;
  for (std::int64_t j = 0; j < cols; ++j) {
    diagonal.push_back(at(j, j) + (j < n ? ridge_square(origin, j) / (origin.scale * origin.scale) : 0));
  }
  TriangularFactor factor{n, r, origin.unit_roundoff, FactorMethod::kCholesky, gram_exponents(diagonal), nullptr, {}};
  const std::vector<int>& e = factor.exponent;
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const int both = e[static_cast<std::size_t>(i)] + e[static_cast<std::size_t>(j)];
      at(i, j) = origin.scale * origin.scale * std::ldexp(at(i, j), both);
      if (i == j && j < n) at(i, j) += std::ldexp(ridge_square(origin, j), both);
    }
  }
  const lapack_int info = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', order, gram.data(), width);
  require(info >= 0, ErrorKind::kInternal, fmt::format("LAPACKE_dpotrf returned {}", info));
  if (info > 0) return std::nullopt;
  if (r > 0) {  // R12 = R11^-T G12
    cblas_dtrsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, order, rhs, 1.0, gram.data(), width,
                gram.data() + n * cols, width);
  }
  for (std::int64_t k = n; k < cols; ++k) {
    double rest = at(k, k);
    for (std::int64_t i = 0; i < n; ++i) rest -= at(i, k) * at(i, k);
    for (std::int64_t i = n; i < k; ++i) at(i, k) = 0;
    at(k, k) = std::sqrt(std::max(0.0, rest));  // b in the range of A leaves rounding, of either sign
  }
  for (std::int64_t j = 0; j < cols; ++j) std::fill_n(gram.begin() + j * cols + j + 1, cols - j - 1, 0.0);
  set_upper(gram, factor);
  return factor;
}

void add_ridge(double lambda, const std::vector<int>& exponents, TriangularFactor& factor) {
  if (lambda == 0) return;
  const std::int64_t n = factor.n, cols = n + factor.r;
  // [sqrt(lambda) D | 0] is upper trapezoidal, as dtpqrt wants it.
  std::vector<double> below(static_cast<std::size_t>(n * cols), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    const int exponent = exponents.empty() ? 0 : exponents[static_cast<std::size_t>(j)];
    below[static_cast<std::size_t>(j * n + j)] =
        std::ldexp(std::sqrt(lambda), exponent + factor.exponent[static_cast<std::size_t>(j)]);
  }
  const auto rows = static_cast<lapack_int>(n), width = static_cast<lapack_int>(cols);
  const lapack_int block = std::min<lapack_int>(width, 64);
  std::vector<double> reflector_blocks(static_cast<std::size_t>(block * cols));
  std::vector<double> upper = upper_of(factor);
  const lapack_int info = LAPACKE_dtpqrt(LAPACK_COL_MAJOR, rows, width, rows, block, upper.data(), width, below.data(),
                                         rows, reflector_blocks.data(), block);
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate the workspace of dtpqrt");
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_dtpqrt returned {}", info));
  // A small column's ridge may be a large number: back to about 1, as the factor's columns are.
  for (std::int64_t j = 0; j < n; ++j) {
    const auto begin = upper.begin() + j * cols;
    int exponent = 0;
    const double largest = std::accumulate(begin, begin + j + 1, 0.0,
                                           [](double most, double value) { return std::max(most, std::fabs(value)); });
    std::frexp(largest, &exponent);
    for (auto value = begin; value != begin + j + 1; ++value) *value = std::ldexp(*value, -exponent);
    factor.exponent[static_cast<std::size_t>(j)] -= exponent;
  }
  set_upper(upper, factor);
}

}  // namespace tallsketch
