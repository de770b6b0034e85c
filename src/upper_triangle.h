// UpperTriangle: a Triangle in host memory, by LAPACK and BLAS.
// Made by sketch_factor; used by preconditioners and certificates, on rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/triangle.h"

namespace tallsketch {

/// An (n, n) upper triangle, column-major; what the caller's array holds below the diagonal is never read.
class UpperTriangle final : public Triangle {
 public:
  /// values  in (ld, n) column-major FP64, ld >= n: the leading block of a larger factor will do
  /// Errors  kMemory when n exceeds LAPACK's 32-bit integers
  UpperTriangle(std::int64_t n, const double* values, std::int64_t ld);

  std::int64_t size() const override { return n_; }
  double at(std::int64_t i, std::int64_t j) const { return values_[static_cast<std::size_t>(j * n_ + i)]; }
  double column_norm(std::int64_t j) const;
  Vector diagonal() const override;
  Vector column_norms() const override;
  /// Cost    n^2 operations each, 4 n^2 bytes (a BLAS triangular solve, 0.07 ms for n = 1024 on one core)
  void solve(Vector& v) const override;
  void solve_transposed(Vector& v) const override;
  void multiply(Vector& v) const override;
  void multiply_transposed(Vector& v) const override;
  const UpperTriangle& on_host() const override { return *this; }

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
