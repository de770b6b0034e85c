// Refinement of a sketched least-squares solution to a certified backward error. Pure: A is seen only through a NormalPass,
// MPI and devices not at all. Called by solver.cpp on rank 0 alone, whose pass broadcasts x to the other ranks and reduces
// their sums: so one rank decides, and no two can decide differently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "src/preconditioner.h"

namespace tallsketch {

/// The sums of one pass over A.
struct NormalSums {
  std::vector<double> gradient;          // (n, r) row-major: A^T (b - A x), or -A^T A x without b
  std::vector<double> residual_squares;  // (r): ||b - A x||^2, or ||A x||^2 without b
};

/// One read of A and one reduction.
/// x       in (n, r) row-major
/// with_b  false: b counts as 0
using NormalPass = std::function<NormalSums(const std::vector<double>& x, bool with_b)>;

/// What the sketch (or the Gram matrix) gives to the refinement; with a ridge, of A with the rows sqrt(ridge) I appended.
struct SketchedFactor {
  std::shared_ptr<const Preconditioner> preconditioner;
  std::vector<int> exponent;  // (n): D = diag(2^exponent), the preconditioner's column scales
};

struct RefineOptions {
  double tolerance = 1e-15;              // of the backward error relative to ||A D||_F
  std::int64_t max_passes = 200;         // over A, certificates counted; one judges the start, also of 0
  double ridge = 0;                      // lambda >= 0: minimises ||A x - b||^2 + lambda ||x||^2
  std::vector<int> ridge_exponent = {};  // (n): with 2^exponent x_j for x_j in the last term; empty: zeros
};

enum class RefineReason {
  kCertificateMet,
  kUntested,  // the step limit, with the bound met but by a preconditioner that no step of CG has tested
  kStepLimit,
  kStagnated,     // two rounds in a row without halving the backward error
  kSketchMisfit,  // R is not of this matrix or not precise enough to certify anything: sketch again, in FP64
  kDiverged,      // sums not finite, or a backward error grown a hundredfold
};

/// Words for the report.
const char* reason_text(RefineReason reason);

struct RefineResult {
  std::vector<double> x;  // (n, r) row-major: the best seen, finite if the start was
  bool converged = false;
  RefineReason reason = RefineReason::kStepLimit;  // the worst of all right-hand sides, in the order of RefineReason
  std::int64_t passes = 0;                         // over A
  std::int64_t iterations = 0;                     // CG steps
  std::int64_t rounds = 0;
  std::vector<double> backward_error;   // (r) certificate of x, or an upper bound of it; infinity if never evaluated
  std::vector<double> residual_norm;    // (r) ||b - A x||, with a ridge of the extended problem
  std::vector<double> normal_residual;  // (r) ||D A^T (b - A x)||
  std::vector<double> preconditioned_gradient;  // (r) ||N^T D A^T (b - A x)||, about ||A (x - x*)||
  double least_stretch = 1;                     // least ||A D N z|| / ||z|| met, at most 1
};

/// Refines x until the sketched Karlson-Walden certificate of every right-hand side is at most the tolerance.
/// factor    in invertible
/// start     in (n, r) row-major: the sketch's solution, or 0
/// rhs_norm  in (r): ||b||, or ||S b||
///
/// Method  rounds of conjugate gradients on the normal equations, preconditioned by R on both sides. A round starts from a
///         gradient computed anew from b - A x and corrects x by what CG finds; its own recurrence tells when the
///         correction is good enough, or as good as the rounding of that gradient allows. The next round's first pass
///         judges x. With rounds the result is backward stable, where one run of CG or LSQR is not (docs/decisions/0016).
/// Belief  CG also measures ||A D N z|| / ||z||. The sketch of d >= n rows makes it 1/2 or more; below 1/4 no certificate
///         is believed, and all ends with kSketchMisfit. So a start that meets the tolerance still takes one step.
/// Limits  sums of squares must neither overflow nor underflow: |b - A x| within about 1e-150 ... 1e150
/// Order   equal bits from equal passes, with the same LAPACK and as many threads
/// Errors  those of the pass; kInternal for a factor that is not invertible
/// Cost    2 triangular solves a step and right-hand side; see BackwardErrorCertificate for certificates that its bound
///         does not settle
/// Source  SPIR, arXiv 2406.03468 (Epperly, Meier, Nakatsukasa); the stopping rules are our own
RefineResult refine(const SketchedFactor& factor, const std::vector<double>& start, const std::vector<double>& rhs_norm,
                    const RefineOptions& options, const NormalPass& pass);

}  // namespace tallsketch
