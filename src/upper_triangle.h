// UpperTriangle: R of a column-scaled sketch in FP64, with the triangular operations that preconditioning and certificates
// need. Called by reduced_solver, refine and certificate, on rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tallsketch {

/// An (n, n) upper triangle, column-major; what the caller's array holds below the diagonal is never read.
class UpperTriangle {
 public:
  /// values  in (ld, n) column-major FP64, ld >= n: the leading block of a larger factor will do
  /// Errors  kMemory when n exceeds LAPACK's 32-bit integers
  UpperTriangle(std::int64_t n, const double* values, std::int64_t ld);

  std::int64_t size() const { return n_; }
  double at(std::int64_t i, std::int64_t j) const { return values_[static_cast<std::size_t>(j * n_ + i)]; }
  double column_norm(std::int64_t j) const;
  double frobenius_norm() const;
  /// Whether all entries are finite and none on the diagonal is zero; solve and solve_transposed need that.
  bool invertible() const;

  /// v := R^-1 v and v := R^-T v, in place; v (n)
  /// Cost    n^2 operations, 4 n^2 bytes (LAPACK dtrtrs: a BLAS triangular solve, 0.07 ms for n = 1024 on one core)
  void solve(std::vector<double>& v) const;
  void solve_transposed(std::vector<double>& v) const;
  /// v := R v and v := R^T v, in place; v (n)
  void multiply(std::vector<double>& v) const;
  void multiply_transposed(std::vector<double>& v) const;

  /// Norms of the rows of R^-1, (n).
  /// Cost    n^3 / 3 operations (LAPACK dtrtri)
  std::vector<double> inverse_row_norms() const;

  /// The R of the QR of [R; shift I]: R_s^T R_s = R^T R + shift^2 I, without squaring the condition.
  /// Cost    2 n^3 / 3 operations (LAPACK dtpqrt; 81 ms for n = 1024 on two shared cores, where an SVD takes 3.3 s)
  /// Errors  kMemory when LAPACK's workspace cannot be had
  UpperTriangle shifted(double shift) const;

 private:
  void solve_with(char trans, std::vector<double>& v) const;

  std::int64_t n_;
  std::vector<double> values_;  // (n, n) column-major, zero below the diagonal
};

}  // namespace tallsketch
