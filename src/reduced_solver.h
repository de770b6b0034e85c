// The reduced problem: x, rank, condition and the preconditioner from the triangle of the sketch. Rank 0 only.
// Called by solver.cpp, for every backend: sketch_factor and its GPU twin make the triangle.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/preconditioner.h"
#include "src/triangular_factor.h"

namespace tallsketch {

enum class ReducedMethod {
  kTriangle,  // R11 x = R12; nothing but rank and dependent where rank is lost
  kProbe,     // the same, but columns that no R_jj shows to be dependent are not named: a finer attempt follows
  kSpectral,  // by the singular values of R11: the minimum-norm solution where rank is lost
};

struct ReducedSolution {
  std::vector<double> x;                // (n, r) row-major
  std::int64_t rank = 0;                // numerical rank of A
  std::vector<std::int64_t> dependent;  // n - rank columns that depend on the others, 0-based, increasing
  double condition = 0;                 // 2-norm, of the column-scaled sketch; infinite where rank is lost
  double spread = 0;  // how far x moves, root mean square, for a change of length 1 in the range of S A
  ReducedMethod by = ReducedMethod::kTriangle;
  std::shared_ptr<const Preconditioner> preconditioner;  // null where there is no x
};

/// Solves R11 x = R12 in FP64 and judges R11.
/// rows    of the sketch that were factored, d; of a Gram matrix n: the cut-off never depends on m
/// stored  u_A, the unit roundoff of the stored data: what their own rounding hides is no rank
/// Rank    column j depends on those before it when |R_jj| <= c ||R(:, j)||, c = 2 max(sqrt(d) u, u_A): the rounding error of a
///         Householder QR of d rows with unit roundoff u (Higham, Accuracy and Stability, th. 19.4, in practice
///         sqrt(d)). A condition of 1 / c or more that no R_jj shows, and kSpectral: singular values above c times the
///         largest count, and the columns are those of SpectralPreconditioner where R_jj tells of another number
ReducedSolution solve_reduced(const TriangularFactor& factor, std::int64_t rows,
                              ReducedMethod method = ReducedMethod::kTriangle, double stored = 0);

}  // namespace tallsketch
