// The reduced problem: Householder QR by LAPACK in the sketch's own precision, and x, rank and condition from R. Rank 0 only.
// qr_of_sketch is called by host_backend (the GPU twin is cuda_reduced_solver); solve_reduced by solver.cpp for both.
#pragma once

#include <cstdint>
#include <vector>

#include "src/triangular_factor.h"

namespace tallsketch {

/// Largest magnitude of every column of a (d, cols) row-major matrix; NaN is passed over. T is float or double.
template <class T>
std::vector<double> column_maxima(const std::vector<T>& matrix, std::int64_t d, std::int64_t cols);

/// QR of scale * sketch * 2^exponents, column by column, in FP32 or FP64 as T is float or double.
/// sketch  in (d, n + r) row-major, unscaled, finite; d > n
/// Errors  kMemory when a size exceeds LAPACK's 32-bit integers
/// Cost    2 d (n + r)^2 operations
template <class T>
TriangularFactor qr_of_sketch(const std::vector<T>& sketch, std::int64_t d, std::int64_t n, std::int64_t r,
                              double scale);

struct ReducedSolution {
  std::vector<double> x;                  // (n, r) row-major
  std::vector<double> sketched_residual;  // (r): ||S (A x - b)||, the minimum over x
  std::int64_t rank = 0;                  // n less the dependent columns
  std::vector<std::int64_t> dependent;    // columns that depend on those before them, 0-based
  double condition = 0;                   // 2-norm, of the column-scaled sketch
  double spread = 0;  // how far x moves, root mean square, for a change of length 1 in the range of S A
};

/// Solves R11 x = R12 in FP64 and judges R11. x is empty when the rank is below n.
/// Rank   column j depends on those before it when |R_jj| <= 2 sqrt(d) u ||R(:, j)||: the cut-off is the rounding
///        error of a Householder QR of d rows with unit roundoff u (Higham, Accuracy and Stability, th. 19.4, in practice sqrt(d))
ReducedSolution solve_reduced(const TriangularFactor& factor, std::int64_t d);

}  // namespace tallsketch
