#include "tests/support/dense_matrix.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>

#include <lapacke.h>

#include "src/normals.h"

namespace tallsketch {

namespace {

void expect_success(lapack_int info) {
  if (info != 0) std::abort();
}

lapack_int size_of(std::int64_t value) { return static_cast<lapack_int>(value); }

DenseMatrix random_orthonormal(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  DenseMatrix q = random_matrix(rows, cols, seed);
  std::vector<double> tau(static_cast<std::size_t>(cols));
  const lapack_int m = size_of(rows), n = size_of(cols);
  expect_success(LAPACKE_dgeqrf(LAPACK_COL_MAJOR, m, n, q.values.data(), m, tau.data()));
  expect_success(LAPACKE_dorgqr(LAPACK_COL_MAJOR, m, n, n, q.values.data(), m, tau.data()));
  return q;
}

}  // namespace

DenseMatrix identity(std::int64_t n) {
  DenseMatrix result(n, n);
  for (std::int64_t j = 0; j < n; ++j) result(j, j) = 1;
  return result;
}

DenseMatrix random_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  DenseMatrix result(rows, cols);
  for (std::int64_t j = 0; j < cols; ++j) {
    normals(seed, j, DrawPurpose::kMatrixEntries, rows, result.values.data() + j * rows);
  }
  return result;
}

DenseMatrix random_conditioned(std::int64_t rows, std::int64_t cols, double cond, std::uint64_t seed) {
  DenseMatrix u = random_orthonormal(rows, cols, seed);
  for (std::int64_t j = 0; j < cols; ++j) {
    const double sigma = cols == 1 ? 1 : std::pow(cond, -static_cast<double>(j) / static_cast<double>(cols - 1));
    for (std::int64_t i = 0; i < rows; ++i) u(i, j) *= sigma;
  }
  return u * transpose(random_orthonormal(cols, cols, seed + 1));
}

DenseMatrix transpose(const DenseMatrix& a) {
  DenseMatrix result(a.cols, a.rows);
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) result(j, i) = a(i, j);
  }
  return result;
}

DenseMatrix operator*(const DenseMatrix& a, const DenseMatrix& b) {
  assert(a.cols == b.rows);
  DenseMatrix result(a.rows, b.cols);
  for (std::int64_t j = 0; j < b.cols; ++j) {
    for (std::int64_t k = 0; k < a.cols; ++k) {
      for (std::int64_t i = 0; i < a.rows; ++i) result(i, j) += a(i, k) * b(k, j);
    }
  }
  return result;
}

DenseMatrix operator-(const DenseMatrix& a, const DenseMatrix& b) {
  assert(a.rows == b.rows && a.cols == b.cols);
  DenseMatrix result = a;
  for (std::size_t i = 0; i < b.values.size(); ++i) result.values[i] -= b.values[i];
  return result;
}

DenseMatrix above(const DenseMatrix& a, const DenseMatrix& b) {
  assert(a.cols == b.cols);
  DenseMatrix result(a.rows + b.rows, a.cols);
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) result(i, j) = a(i, j);
    for (std::int64_t i = 0; i < b.rows; ++i) result(a.rows + i, j) = b(i, j);
  }
  return result;
}

DenseMatrix beside(const DenseMatrix& a, const DenseMatrix& b) {
  assert(a.rows == b.rows);
  DenseMatrix result = a;
  result.cols += b.cols;
  result.values.insert(result.values.end(), b.values.begin(), b.values.end());
  return result;
}

DenseMatrix columns(const DenseMatrix& a, std::int64_t first, std::int64_t count) {
  return {a.rows, count, {a.values.begin() + first * a.rows, a.values.begin() + (first + count) * a.rows}};
}

DenseMatrix scaled_columns(const DenseMatrix& a, const std::vector<int>& exponent) {
  DenseMatrix result = a;
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) {
      result(i, j) = std::ldexp(a(i, j), exponent[static_cast<std::size_t>(j)]);
    }
  }
  return result;
}

DenseMatrix from_row_major(std::int64_t rows, std::int64_t cols, const std::vector<double>& values) {
  return transpose({cols, rows, values});
}

std::vector<double> row_major(const DenseMatrix& a) { return transpose(a).values; }

double norm(const DenseMatrix& a) {
  double result = 0;
  for (const double value : a.values) result = std::hypot(result, value);
  return result;
}

std::vector<double> singular_values(const DenseMatrix& a) {
  DenseMatrix copy = a;
  std::vector<double> values(static_cast<std::size_t>(std::min(a.rows, a.cols)));
  const lapack_int m = size_of(a.rows), n = size_of(a.cols);
  expect_success(
      LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', m, n, copy.values.data(), m, values.data(), nullptr, 1, nullptr, 1));
  return values;
}

DenseMatrix triangle_of(const DenseMatrix& a) {
  DenseMatrix copy = a, upper(a.cols, a.cols);
  std::vector<double> tau(static_cast<std::size_t>(a.cols));
  const lapack_int m = size_of(a.rows), n = size_of(a.cols);
  expect_success(LAPACKE_dgeqrf(LAPACK_COL_MAJOR, m, n, copy.values.data(), m, tau.data()));
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (std::int64_t i = 0; i <= std::min(j, a.rows - 1); ++i) upper(i, j) = copy(i, j);
  }
  return upper;
}

DenseMatrix inverse(const DenseMatrix& a) {
  DenseMatrix result = a;
  const lapack_int n = size_of(a.rows);
  std::vector<lapack_int> pivots(static_cast<std::size_t>(n));
  expect_success(LAPACKE_dgetrf(LAPACK_COL_MAJOR, n, n, result.values.data(), n, pivots.data()));
  expect_success(LAPACKE_dgetri(LAPACK_COL_MAJOR, n, result.values.data(), n, pivots.data()));
  return result;
}

DenseMatrix least_squares(const DenseMatrix& a, const DenseMatrix& b, double rcond) {
  DenseMatrix copy = a, x = b;
  if (a.rows < a.cols) x = above(b, DenseMatrix(a.cols - a.rows, b.cols));
  std::vector<double> values(static_cast<std::size_t>(std::min(a.rows, a.cols)));
  lapack_int rank = 0;
  expect_success(LAPACKE_dgelsd(LAPACK_COL_MAJOR, size_of(a.rows), size_of(a.cols), size_of(b.cols), copy.values.data(),
                                size_of(a.rows), x.values.data(), size_of(x.rows), values.data(), rcond, &rank));
  DenseMatrix result(a.cols, b.cols);
  for (std::int64_t k = 0; k < b.cols; ++k) {
    for (std::int64_t j = 0; j < a.cols; ++j) result(j, k) = x(j, k);
  }
  return result;
}

Eigen symmetric_eigen(const DenseMatrix& a) {
  Eigen result{std::vector<double>(static_cast<std::size_t>(a.rows)), a};
  const lapack_int n = size_of(a.rows);
  expect_success(LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', n, result.vectors.values.data(), n, result.values.data()));
  return result;
}

}  // namespace tallsketch
