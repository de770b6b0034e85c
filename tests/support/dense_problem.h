// Dense least-squares problems in memory whose condition and residual are chosen, their sketches, their passes, and the true
// backward error of a solution. Called by the tests of certificate and refine.
#pragma once

#include <cstdint>
#include <vector>

#include "src/refine.h"

namespace tallsketch {

struct DenseProblem {
  std::int64_t m = 0, n = 0, r = 0;
  std::vector<double> a;  // (m, n) row-major
  std::vector<double> b;  // (m, r) row-major
};

/// A = U diag(1 ... 1/cond, geometrically) V^T with random orthonormal U and V; b = A x + residual * e, where x and e have
/// length 1 and e is orthogonal to the range of A.
/// weights  kCoherent: 2 (n + r) rows, spread evenly, carry all but a millionth of the squares of U and e
/// Limits   m > 2 (n + r); condition 1 for n = 1
enum class RowWeights { kEven, kCoherent };
DenseProblem make_dense_problem(std::int64_t m, std::int64_t n, std::int64_t r, double cond, double residual,
                                std::uint64_t seed, RowWeights weights = RowWeights::kEven);

/// [A | b; sqrt(ridge) I | 0].
DenseProblem with_ridge_rows(const DenseProblem& problem, double ridge);

/// Multiplies column j of A by 2^exponents[j].
void scale_columns(DenseProblem& problem, const std::vector<int>& exponents);

/// What refine() takes from a sketch.
struct DenseSketch {
  SketchedFactor factor;
  std::vector<double> start;     // (n, r) row-major: the sketch's solution
  std::vector<double> rhs_norm;  // (r): ||S b||
};

/// R of a factor whose preconditioner is a triangle.
const UpperTriangle& upper_of(const SketchedFactor& factor);

enum class FactorPrecision { kFp32, kFp64 };

/// Sketches [A | b; sqrt(ridge) I | 0] by a SparseStack with d rows, zeta = 4, and factors it with scaled columns.
/// precision  of the sketch: kFp32 rounds the sketched A to float before the QR
/// Limits     d a multiple of 4, d > n + r
DenseSketch sketch_problem(const DenseProblem& problem, std::int64_t d, FactorPrecision precision, double ridge = 0);

/// The pass over the problem, in FP64 by plain loops; the problem must outlive it.
NormalPass dense_pass(const DenseProblem& problem);

/// The least ||[E, theta f]||_F / ||A D||_F such that column k of x solves min ||(A D + E) y - (b + f)|| exactly, where
/// x = D y, D = diag(2^exponent) and theta = ||A D||_F / ||b||. By SVD, the residual in long double.
/// Limits  resolves about 2e-16
/// Source  Walden, Karlson, Sun, Numer. Linear Algebra Appl. 2 (1995); Higham, Accuracy and Stability, theorem 20.5
double true_backward_error(const DenseProblem& problem, const std::vector<int>& exponent, const std::vector<double>& x,
                           std::int64_t k = 0);

/// The direct solution of column 0 by Householder QR of A, (n).
std::vector<double> direct_solution(const DenseProblem& problem);

}  // namespace tallsketch
