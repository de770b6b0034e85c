// The triangle of the reduced problem, on the host: by QR of the sketch, or by Cholesky of a Gram matrix. Rank 0 only.
// Called by host_backend; the GPU twin is cuda_reduced_solver, which shares the conventions, gram_exponents and add_ridge.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/check_rows.h"
#include "src/triangular_factor.h"

namespace tallsketch {

/// Largest magnitude of every column of a (d, cols) row-major matrix; NaN is passed over. T is float or double.
template <class T>
std::vector<double> column_maxima(const std::vector<T>& matrix, std::int64_t d, std::int64_t cols);

/// QR of scale * sketch * 2^exponents, column by column, in FP32 or FP64 as T is float or double.
/// sketch  in (d, n + r) row-major, unscaled, finite; more than n rows
/// unused  rows of it that count as zero
/// Errors  kMemory when a size exceeds LAPACK's 32-bit integers
/// Cost    2 d (n + r)^2 operations
template <class T>
TriangularFactor qr_of_sketch(const std::vector<T>& sketch, std::int64_t d, std::int64_t n, std::int64_t r,
                              double scale, const CheckRows& unused = {});

/// scale * sketch of (b - A x): (d, r) row-major, dot products in FP64, columns in order.
/// x  in (n, r) row-major, finite
template <class T>
std::vector<double> residual_of_sketch(const std::vector<T>& sketch, std::int64_t d, std::int64_t n, std::int64_t r,
                                       double scale, const std::vector<double>& x);

/// What is known of a Gram matrix beside its elements.
struct GramOrigin {
  double unit_roundoff = 0;    // of the matrix that it is the Gram matrix of
  double scale = 1;            // which is multiplied by this
  double ridge = 0;            // lambda: its rows sqrt(lambda) 2^exponents are not in the matrix yet
  std::vector<int> exponents;  // (n) or more; empty: zeros
};

/// What the ridge adds to the squared norm of column j: ridge 4^exponents[j].
double ridge_square(const GramOrigin& origin, std::int64_t j);

/// Column exponents for the Cholesky factor, from the diagonal of a Gram matrix: column_exponents of the columns' norms.
std::vector<int> gram_exponents(const std::vector<double>& diagonal);

/// The Cholesky factor of 2^e (scale^2 G + ridge) 2^e over the columns of A, R12, and the norms that R22's columns have.
/// gram    in (n + r, n + r) column-major FP64: the upper triangle of [A | b]^T [A | b], finite
/// Returns nothing where a pivot is not positive: some column depends on others, as far as squares can tell
/// Limits  singular values of A below about 1e-8 of the largest are noise
std::optional<TriangularFactor> cholesky_of_gram(std::vector<double> gram, std::int64_t n, std::int64_t r,
                                                 const GramOrigin& origin);

/// Appends the rows sqrt(lambda) 2^exponents to A and zeros to b: the triangle of [R; sqrt(lambda) 2^exponents D | 0].
/// exponents  in (n) or more; empty: zeros
/// Cost       2 n^2 (n + r) operations (LAPACK dtpqrt)
void add_ridge(double lambda, const std::vector<int>& exponents, TriangularFactor& factor);

}  // namespace tallsketch
