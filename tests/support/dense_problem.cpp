#include "tests/support/dense_problem.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <lapacke.h>

#include "src/normals.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

namespace tallsketch {

namespace {

std::size_t at(std::int64_t i, std::int64_t j, std::int64_t cols) { return static_cast<std::size_t>(i * cols + j); }

void expect_success(lapack_int info) {
  if (info != 0) std::abort();
}

/// R of the QR of a (rows, cols) row-major matrix, (cols, cols) column-major; q, if asked for, replaces the matrix.
std::vector<double> triangle_of(std::int64_t rows, std::int64_t cols, std::vector<double>& matrix,
                                bool want_q = false) {
  const auto m = static_cast<lapack_int>(rows), n = static_cast<lapack_int>(cols);
  std::vector<double> tau(static_cast<std::size_t>(cols)), upper(static_cast<std::size_t>(cols * cols), 0.0);
  expect_success(LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, m, n, matrix.data(), n, tau.data()));
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i <= std::min(j, rows - 1); ++i) upper[at(j, i, cols)] = matrix[at(i, j, cols)];
  }
  if (want_q) expect_success(LAPACKE_dorgqr(LAPACK_ROW_MAJOR, m, n, n, matrix.data(), n, tau.data()));
  return upper;
}

std::vector<double> random_orthonormal(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                                       RowWeights weights = RowWeights::kEven) {
  std::vector<double> q(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i) normals(seed, i, DrawPurpose::kMatrixEntries, cols, q.data() + i * cols);
  const std::int64_t stride = std::max<std::int64_t>(1, rows / (2 * cols));
  for (std::int64_t i = 0; i < rows && weights == RowWeights::kCoherent; ++i) {
    if (i % stride == 0 && i / stride < 2 * cols) continue;
    for (std::int64_t j = 0; j < cols; ++j) q[at(i, j, cols)] *= 1e-3 / std::sqrt(static_cast<double>(stride));
  }
  triangle_of(rows, cols, q, true);
  return q;
}

std::vector<int> exponents_of(const std::vector<double>& matrix, std::int64_t rows, std::int64_t cols) {
  std::vector<double> largest(static_cast<std::size_t>(cols), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      double& value = largest[static_cast<std::size_t>(j)];
      value = std::max(value, std::fabs(matrix[at(i, j, cols)]));
    }
  }
  std::vector<int> exponents;
  for (const double value : largest) exponents.push_back(value > 0 ? -std::ilogb(value) - 1 : 0);
  return exponents;
}

}  // namespace

DenseProblem make_dense_problem(std::int64_t m, std::int64_t n, std::int64_t r, double cond, double residual,
                                std::uint64_t seed, RowWeights weights) {
  assert(m > n + r);
  DenseProblem problem{m, n, r, std::vector<double>(static_cast<std::size_t>(m * n), 0.0), {}};
  const std::vector<double> u = random_orthonormal(m, n + r, seed, weights);  // the last r columns are the residuals
  const std::vector<double> v = random_orthonormal(n, n, seed + 1);
  for (std::int64_t l = 0; l < n; ++l) {
    const double sigma = n == 1 ? 1 : std::pow(cond, -static_cast<double>(l) / static_cast<double>(n - 1));
    for (std::int64_t i = 0; i < m; ++i) {
      const double left = u[at(i, l, n + r)] * sigma;
      for (std::int64_t j = 0; j < n; ++j) problem.a[at(i, j, n)] += left * v[at(j, l, n)];
    }
  }
  problem.b.resize(static_cast<std::size_t>(m * r));
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < r; ++k) {
    normals(seed + 2, k, DrawPurpose::kVectors, n, x.data());
    double squares = 0;
    for (const double value : x) squares += value * value;
    for (double& value : x) value /= std::sqrt(squares);
    for (std::int64_t i = 0; i < m; ++i) {
      double sum = residual * u[at(i, n + k, n + r)];
      for (std::int64_t j = 0; j < n; ++j) sum += problem.a[at(i, j, n)] * x[static_cast<std::size_t>(j)];
      problem.b[at(i, k, r)] = sum;
    }
  }
  return problem;
}

DenseProblem with_ridge_rows(const DenseProblem& problem, double ridge) {
  DenseProblem extended = problem;
  if (ridge == 0) return extended;
  extended.m += problem.n;
  for (std::int64_t i = 0; i < problem.n; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) extended.a.push_back(i == j ? std::sqrt(ridge) : 0);
    for (std::int64_t k = 0; k < problem.r; ++k) extended.b.push_back(0);
  }
  return extended;
}

void scale_columns(DenseProblem& problem, const std::vector<int>& exponents) {
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      double& value = problem.a[at(i, j, problem.n)];
      value = std::ldexp(value, exponents[static_cast<std::size_t>(j)]);
    }
  }
}

const UpperTriangle& upper_of(const SketchedFactor& factor) {
  return dynamic_cast<const TrianglePreconditioner&>(*factor.preconditioner).triangle().on_host();
}

DenseSketch sketch_problem(const DenseProblem& problem, std::int64_t d, FactorPrecision precision, double ridge) {
  const DenseProblem extended = with_ridge_rows(problem, ridge);
  const std::int64_t n = problem.n, r = problem.r, cols = n + r;
  const SketchSpec spec = make_spec(SketchHash::kPermuted, d, 4);
  const SlabView a{extended.a.data(), extended.m, n, n, ElementType::kFloat64, 0};
  const SlabView b{extended.b.data(), extended.m, r, r, ElementType::kFloat64, 0};
  std::vector<double> sketch = oracle_sketch(spec, a, b);  // (d, n + r), unscaled: zeta = 4 makes it twice S [A | b]
  std::vector<int> exponents = exponents_of(sketch, d, cols);
  std::fill(exponents.begin() + n, exponents.end(), 0);
  for (std::int64_t i = 0; i < d; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      double& value = sketch[at(i, j, cols)];
      value = std::ldexp(value / 2, exponents[static_cast<std::size_t>(j)]);
      if (precision == FactorPrecision::kFp32 && j < n) value = static_cast<float>(value);
    }
  }
  const std::vector<double> upper = triangle_of(d, cols, sketch);
  exponents.resize(static_cast<std::size_t>(n));
  DenseSketch result{
      {std::make_shared<TrianglePreconditioner>(UpperTriangle(n, upper.data(), cols)), exponents}, {}, {}};
  result.start.resize(static_cast<std::size_t>(n * r));
  for (std::int64_t k = 0; k < r; ++k) {
    const double* column = upper.data() + (n + k) * cols;
    std::vector<double> y(column, column + n);
    upper_of(result.factor).solve(y);
    for (std::int64_t j = 0; j < n; ++j) {
      result.start[at(j, k, r)] = std::ldexp(y[static_cast<std::size_t>(j)], exponents[static_cast<std::size_t>(j)]);
    }
    double squares = 0;
    for (std::int64_t i = 0; i <= n + k; ++i) squares += column[i] * column[i];
    result.rhs_norm.push_back(std::sqrt(squares));
  }
  return result;
}

NormalPass dense_pass(const DenseProblem& problem) {
  return [&problem](const std::vector<double>& x, bool with_b) {
    const std::int64_t n = problem.n, r = problem.r;
    NormalSums sums{std::vector<double>(static_cast<std::size_t>(n * r), 0.0),
                    std::vector<double>(static_cast<std::size_t>(r), 0.0)};
    for (std::int64_t i = 0; i < problem.m; ++i) {
      const double* row = problem.a.data() + i * n;
      for (std::int64_t k = 0; k < r; ++k) {
        double residual = with_b ? problem.b[at(i, k, r)] : 0;
        for (std::int64_t j = 0; j < n; ++j) residual -= row[j] * x[at(j, k, r)];
        for (std::int64_t j = 0; j < n; ++j) sums.gradient[at(j, k, r)] += row[j] * residual;
        sums.residual_squares[static_cast<std::size_t>(k)] += residual * residual;
      }
    }
    return sums;
  };
}

double true_backward_error(const DenseProblem& problem, const std::vector<int>& exponent, const std::vector<double>& x,
                           std::int64_t k) {
  const std::int64_t m = problem.m, n = problem.n, r = problem.r;
  std::vector<double> a = problem.a, residual;
  double frobenius = 0, b_squares = 0, y_squares = 0;
  long double residual_squares = 0;
  std::vector<long double> products(static_cast<std::size_t>(n), 0);  // (A D)^T (b - A x)
  for (std::int64_t j = 0; j < n; ++j) {
    const double y = std::ldexp(x[at(j, k, r)], -exponent[static_cast<std::size_t>(j)]);
    y_squares += y * y;
  }
  for (std::int64_t i = 0; i < m; ++i) {
    const double b = problem.b[at(i, k, r)];
    b_squares += b * b;
    long double sum = b;
    for (std::int64_t j = 0; j < n; ++j) {
      sum -= static_cast<long double>(problem.a[at(i, j, n)]) * static_cast<long double>(x[at(j, k, r)]);
      double& scaled = a[at(i, j, n)];
      scaled = std::ldexp(scaled, exponent[static_cast<std::size_t>(j)]);
      frobenius += scaled * scaled;
    }
    for (std::int64_t j = 0; j < n; ++j) products[static_cast<std::size_t>(j)] += sum * a[at(i, j, n)];
    residual_squares += sum * sum;
    residual.push_back(static_cast<double>(sum));
  }
  frobenius = std::sqrt(frobenius);
  const auto residual_norm = static_cast<double>(std::sqrt(residual_squares));
  if (residual_norm == 0) return 0;
  const double eta = residual_norm / std::sqrt(y_squares + b_squares / (frobenius * frobenius));

  // The least singular value of [A D, eta (I - r r^+)], in the basis of r / ||r|| and the rest of range([A D, r]). The row
  // along r comes from long double: it is the orthogonality that is measured.
  std::vector<double> matrix(static_cast<std::size_t>((n + 1) * 2 * n), 0.0);  // (n + 1, 2 n) row-major
  for (std::int64_t j = 0; j < n; ++j) {
    const double along = static_cast<double>(products[static_cast<std::size_t>(j)]) / residual_norm;
    matrix[static_cast<std::size_t>(j)] = along;
    for (std::int64_t i = 0; i < m; ++i) {
      a[at(i, j, n)] -= residual[static_cast<std::size_t>(i)] / residual_norm * along;
    }
  }
  const std::vector<double> rest = triangle_of(m, n, a);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i; j < n; ++j) matrix[at(i + 1, j, 2 * n)] = rest[at(j, i, n)];
    matrix[at(i + 1, n + i, 2 * n)] = eta;
  }
  std::vector<double> values(static_cast<std::size_t>(n + 1));
  const auto rows = static_cast<lapack_int>(2 * n), cols = static_cast<lapack_int>(n + 1);  // of the transpose
  expect_success(
      LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', rows, cols, matrix.data(), rows, values.data(), nullptr, 1, nullptr, 1));
  return std::min(eta, values.back()) / frobenius;
}

std::vector<double> direct_solution(const DenseProblem& problem) {
  const std::int64_t n = problem.n;
  std::vector<double> matrix;
  for (std::int64_t i = 0; i < problem.m; ++i) {
    matrix.insert(matrix.end(), problem.a.begin() + i * n, problem.a.begin() + (i + 1) * n);
    matrix.push_back(problem.b[at(i, 0, problem.r)]);
  }
  const std::vector<double> upper = triangle_of(problem.m, n + 1, matrix);
  std::vector<double> x(upper.begin() + n * (n + 1), upper.begin() + n * (n + 1) + n);
  UpperTriangle(n, upper.data(), n + 1).solve(x);
  return x;
}

}  // namespace tallsketch
