#include "src/sketch_tasks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <cblas.h>
#include <fmt/format.h>
#include <lapacke.h>

#include "src/error.h"

namespace tallsketch {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

void check_lapack(lapack_int info, const char* what) {
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory,
          fmt::format("LAPACK could not allocate its workspace of {}", what));
  require(info >= 0, ErrorKind::kInternal, fmt::format("{} returned {}", what, info));
}

/// Upper triangle of M^T M, (n, n) row-major, of columns [0, n) of a (rows, pitch) row-major matrix.
std::vector<double> gram_of(const double* matrix, std::int64_t rows, std::int64_t n, std::int64_t pitch) {
  std::vector<double> gram(at(n * n), 0.0);
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, checked_int(n, "n"), checked_int(rows, "d"), 1.0, matrix,
              checked_int(pitch, "n"), 0.0, gram.data(), checked_int(n, "n"));
  return gram;
}

/// Frobenius norm of a symmetric matrix of which the upper triangle is filled.
double symmetric_norm(const std::vector<double>& upper, std::int64_t n) {
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = i; j < n; ++j) squares += (i == j ? 1 : 2) * upper[at(i * n + j)] * upper[at(i * n + j)];
  }
  return std::sqrt(squares);
}

/// max |eigenvalue - 1| of a symmetric matrix of which the upper triangle is filled: row-major upper is LAPACK's lower.
double distance_from_one(std::vector<double> upper, std::int64_t n) {
  std::vector<double> values(at(n));
  const lapack_int size = checked_int(n, "n");
  const lapack_int info = LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'N', 'L', size, upper.data(), size, values.data());
  check_lapack(info, "LAPACKE_dsyevd");
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_dsyevd returned {}", info));
  return std::max(std::fabs(values.front() - 1), std::fabs(values.back() - 1));
}

}  // namespace

std::optional<std::vector<double>> ridge_solution(const std::vector<double>& m_and_c, std::int64_t rows, std::int64_t n,
                                                  double lambda) {
  const std::int64_t height = lambda > 0 ? rows + n : rows;
  if (height < n) return std::nullopt;
  std::vector<double> matrix(at(height * n), 0.0), right(at(height), 0.0);  // column-major
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j) matrix[at(j * height + i)] = m_and_c[at(i * (n + 1) + j)];
    right[at(i)] = m_and_c[at(i * (n + 1) + n)];
  }
  for (std::int64_t j = 0; lambda > 0 && j < n; ++j) matrix[at(j * height + rows + j)] = std::sqrt(lambda);
  const lapack_int m = checked_int(height, "d"), cols = checked_int(n, "n");
  const lapack_int info = LAPACKE_dgels(LAPACK_COL_MAJOR, 'N', m, cols, 1, matrix.data(), m, right.data(), m);
  check_lapack(info, "LAPACKE_dgels");
  if (info > 0) return std::nullopt;  // a zero on R's diagonal
  double largest = 0, least = std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < n; ++j) {
    largest = std::max(largest, std::fabs(matrix[at(j * height + j)]));
    least = std::min(least, std::fabs(matrix[at(j * height + j)]));
  }
  // Rounding of a Householder QR of that many rows: Higham, Accuracy and Stability, th. 19.4, in practice sqrt(rows).
  const double rounding = 2 * std::sqrt(static_cast<double>(height)) * std::numeric_limits<double>::epsilon();
  if (least <= rounding * largest) return std::nullopt;
  right.resize(at(n));
  return right;
}

double relative_residual(const std::vector<double>& triangle, std::int64_t n, const std::vector<double>& x) {
  const std::int64_t width = n + 1;
  double squares = triangle[at(n * width + n)] * triangle[at(n * width + n)], b_squares = squares;
  for (std::int64_t i = 0; i < n; ++i) {
    const double c = triangle[at(i * width + n)];
    double residual = -c;
    for (std::int64_t j = i; j < n; ++j) residual += triangle[at(i * width + j)] * x[at(j)];
    squares += residual * residual;
    b_squares += c * c;
  }
  return std::sqrt(squares / b_squares);
}

TaskErrors exact_errors(const std::vector<double>& triangle, std::int64_t n, double lambda) {
  const auto residual_of = [&](double ridge) {
    const auto x = ridge_solution(triangle, n + 1, n, ridge);
    require(x.has_value(), ErrorKind::kInternal, "a study's problem has dependent columns");
    return relative_residual(triangle, n, *x);
  };
  return {0, 0, residual_of(lambda), residual_of(0)};
}

TaskErrors task_errors(const SketchedTasks& sketch, const std::vector<double>& triangle, double lambda) {
  const std::int64_t d = sketch.d, n = sketch.n, width = 2 * n + 1;
  require(std::all_of(sketch.values.begin(), sketch.values.end(), [](double value) { return std::isfinite(value); }),
          ErrorKind::kNonFinite, "the sketch of a study's problem is not finite; use --scaling auto");
  TaskErrors errors;
  const std::vector<double> exact = gram_of(triangle.data(), n, n, n + 1);
  std::vector<double> difference = gram_of(sketch.values.data(), d, n, width);
  std::transform(difference.begin(), difference.end(), exact.begin(), difference.begin(), std::minus<>{});
  errors.gram = symmetric_norm(difference, n) / symmetric_norm(exact, n);
  errors.ose = distance_from_one(gram_of(sketch.values.data() + n, d, n, width), n);
  std::vector<double> system;  // S [A | b]
  system.reserve(at(d * (n + 1)));
  for (std::int64_t i = 0; i < d; ++i) {
    const double* const row = sketch.values.data() + i * width;
    system.insert(system.end(), row, row + n);
    system.push_back(row[2 * n]);
  }
  const auto residual_of = [&](const std::optional<std::vector<double>>& x) -> std::optional<double> {
    if (!x) return std::nullopt;
    return relative_residual(triangle, n, *x);
  };
  errors.ridge = residual_of(ridge_solution(system, d, n, lambda));
  errors.solve = residual_of(ridge_solution(system, d, n, 0));
  return errors;
}

}  // namespace tallsketch
