// Small dense matrices and the LAPACK calls that tests take for the truth. Nothing of the product is in here.
// Called by the tests of the reduced problem: sketch_factor, preconditioner, reduced_solver, outcome, refine.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tallsketch {

inline constexpr double kDoubleEpsilon = std::numeric_limits<double>::epsilon();
inline constexpr double kFloatEpsilon = std::numeric_limits<float>::epsilon();

/// (rows, cols) column-major FP64.
struct DenseMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;

  DenseMatrix() = default;
  DenseMatrix(std::int64_t m, std::int64_t n) : rows(m), cols(n), values(static_cast<std::size_t>(m * n), 0.0) {}
  DenseMatrix(std::int64_t m, std::int64_t n, std::vector<double> column_major)
      : rows(m), cols(n), values(std::move(column_major)) {}

  double& operator()(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(j * rows + i)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(j * rows + i)]; }
  std::vector<double> column(std::int64_t j) const {
    return {values.begin() + j * rows, values.begin() + (j + 1) * rows};
  }
};

DenseMatrix identity(std::int64_t n);
/// Standard normal entries.
DenseMatrix random_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed);
/// U diag(1 ... 1/cond, geometrically) V^T, U and V random orthonormal. rows >= cols
DenseMatrix random_conditioned(std::int64_t rows, std::int64_t cols, double cond, std::uint64_t seed);

DenseMatrix transpose(const DenseMatrix& a);
DenseMatrix operator*(const DenseMatrix& a, const DenseMatrix& b);
DenseMatrix operator-(const DenseMatrix& a, const DenseMatrix& b);
/// [a; b] and [a | b].
DenseMatrix above(const DenseMatrix& a, const DenseMatrix& b);
DenseMatrix beside(const DenseMatrix& a, const DenseMatrix& b);
/// Columns first ... first + count - 1.
DenseMatrix columns(const DenseMatrix& a, std::int64_t first, std::int64_t count);
/// Column j times 2^exponent[j].
DenseMatrix scaled_columns(const DenseMatrix& a, const std::vector<int>& exponent);

/// Row-major, as sketches and sources are stored.
DenseMatrix from_row_major(std::int64_t rows, std::int64_t cols, const std::vector<double>& values);
std::vector<double> row_major(const DenseMatrix& a);

/// Frobenius norm, without harmful overflow.
double norm(const DenseMatrix& a);
std::vector<double> singular_values(const DenseMatrix& a);
/// R of the QR of a, (cols, cols).
DenseMatrix triangle_of(const DenseMatrix& a);
DenseMatrix inverse(const DenseMatrix& a);
/// Minimum-norm least-squares solution of a x = b by singular values above rcond times the largest (dgelsd).
DenseMatrix least_squares(const DenseMatrix& a, const DenseMatrix& b, double rcond = -1);
/// Eigenvalues, increasing, and eigenvectors of a symmetric matrix (dsyevd).
struct Eigen {
  std::vector<double> values;
  DenseMatrix vectors;
};
Eigen symmetric_eigen(const DenseMatrix& a);

}  // namespace tallsketch
