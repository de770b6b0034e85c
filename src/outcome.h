// How good x is: estimates for one pass, the certificate's figures after refinement, standard errors. Rank 0 only.
// Called by solver.cpp; the formulas stand in docs/numerics.md.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/check_rows.h"
#include "src/problem_shape.h"
#include "src/reduced_solver.h"
#include "src/refine.h"
#include "src/report.h"
#include "src/triangular_factor.h"

namespace tallsketch {

/// Euclidean norms, without harmful overflow, of what a sketch says of a solution that it gave.
struct SketchResidual {
  double used = 0;   // ||S_u (b - A x)||, over the rows of S that x was made from, and all columns of b
  double check = 0;  // the same over the rows held back
};

/// residual  (d, r) row-major: S (b - A x)
SketchResidual split_residual(const std::vector<double>& residual, std::int64_t r, const CheckRows& held_back);

/// What the reduced problem says of A, and how it was solved.
void record_reduced(const TriangularFactor& factor, const ReducedSolution& solution, Compression compression,
                    const MethodOptions& method, SolverOutcome& outcome);

/// Errors  kRankDeficient unless the rank is n, naming the columns
void require_full_rank(const ReducedSolution& solution, std::int64_t n, SketchPrecision precision);

/// Errors  kNonFinite where a coefficient left double's range although the sketch did not
void require_finite_x(const std::vector<double>& x);

/// Figures that a sketch of d rows can give of its own solution: the residual and its excess as theory expects them, and as
/// the rows held back measure them; how far x is from the least-squares solution; a bound of the backward error.
void estimate_quality(const SketchResidual& residual, std::int64_t d, const CheckRows& held_back,
                      const ReducedSolution& solution, const TriangularFactor& factor, double b_norm, Report& report);

/// What the certificate says of x, over all right-hand sides.
void record_refinement(const RefineResult& result, double b_norm, SolverOutcome& outcome);

/// Relative uncertainty of standard errors: of a sketch of d rows 1 / sqrt(2 (d - n)), the spread of an inverse Wishart
/// variance halved; of the Gram matrix (d = 0) its rounding, n u condition^2.
double standard_error_spread(std::int64_t sketch_rows, const ReducedSolution& solution);

/// sqrt(sigma_k^2 [(A^T A)^-1]_jj), (n, r) row-major, with sigma_k^2 = ||b_k - A x_k||^2 / (m - rank).
/// sketch_rows  d of the sketch that made the preconditioner; 0: the Gram matrix did. A sketch makes (A^T A)^-1 larger by
///              d / (d - n - 1) in the mean, which is taken back
/// Limits       standard_error_spread
std::vector<double> standard_errors(const ReducedSolution& solution, const TriangularFactor& factor,
                                    const RefineResult& result, const ProblemShape& shape, std::int64_t sketch_rows);

}  // namespace tallsketch
