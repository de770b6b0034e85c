#include "src/reduced_problem.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "src/attempt.h"
#include "src/outcome.h"
#include "src/report.h"

namespace tallsketch {

namespace {

/// Cholesky where that was asked for or is the better choice: an FP32 sketch's Gram matrix in FP64 loses less up to condition
/// 1e6 than QR in FP32, and costs less; an FP64 sketch's would lose half the digits that the sketch was made for.
bool wants_cholesky(ReducedSolverChoice asked, const SketchJob& job) {
  if (asked == ReducedSolverChoice::kAuto) return job.accumulates() != SketchPrecision::kFp64;
  return asked == ReducedSolverChoice::kCholesky;
}

/// Rows d whose square root measures the rounding of the reduced problem: those that were factored, or more where the sums
/// that made them are so long that their own rounding is larger: m zeta / d terms, half a unit roundoff each, at random.
std::int64_t rounding_rows(const SketchJob& job) {
  const double terms = static_cast<double>(job.shape.m) * job.spec.zeta / static_cast<double>(job.spec.d);
  return std::max(job.spec.d - job.held_back.count, static_cast<std::int64_t>(terms / 4));
}

/// The triangle of the sketch and what it says of A; by QR where Cholesky fails or is not to be believed. Rank 0.
void solve_sketch(const MethodOptions& method, bool last, Backend& backend, Reduced& reduced) {
  constexpr double kCholeskyResolves = 1e6;
  const std::int64_t rows = rounding_rows(reduced.job);
  const double stored = stored_roundoff(reduced.job.shape.a_type);
  const auto solved_by = [&](FactorMethod by) {
    reduced.solution = {};  // its memory, on a GPU, is the next factor's
    reduced.factor = {};
    std::optional<TriangularFactor> factor =
        backend.factor({by, reduced.job.held_back, method.ridge, reduced.sketch.exponents});
    if (!factor) return false;
    add_exponents(reduced.sketch.exponents, *factor);
    reduced.factor = std::move(*factor);
    reduced.solution =
        solve_reduced(reduced.factor, rows, last ? ReducedMethod::kTriangle : ReducedMethod::kProbe, stored);
    return by == FactorMethod::kQr || reduced.solution.condition <= kCholeskyResolves;
  };
  if (!wants_cholesky(method.reduced_solver, reduced.job) || !solved_by(FactorMethod::kCholesky)) {
    solved_by(FactorMethod::kQr);
  }
  const bool unresolved = !(reduced.solution.condition < std::numeric_limits<double>::infinity());
  if (unresolved && !last) return;
  const bool lost = reduced.solution.rank < reduced.factor.n && method.rank_policy == RankPolicy::kMinNorm;
  if (lost || method.reduced_solver == ReducedSolverChoice::kSvd) {
    reduced.solution = solve_reduced(reduced.factor, rows, ReducedMethod::kSpectral, stored);
  }
}

/// The same from the Gram matrix, which has a Cholesky factor or is of no use.
void solve_gram(const MethodOptions& method, Backend& backend, Reduced& reduced) {
  std::optional<TriangularFactor> factor =
      backend.factor({FactorMethod::kCholesky, {}, method.ridge, reduced.sketch.exponents});
  reduced.solution.condition = std::numeric_limits<double>::infinity();
  if (!factor) return;
  add_exponents(reduced.sketch.exponents, *factor);
  reduced.factor = std::move(*factor);
  reduced.solution =
      solve_reduced(reduced.factor, reduced.factor.n, ReducedMethod::kProbe, stored_roundoff(reduced.job.shape.a_type));
}

}  // namespace

void solve_reduced_problem(const MethodOptions& method, bool last, Backend& backend, Reduced& reduced) {
  if (reduced.job.compression == Compression::kGram) {
    solve_gram(method, backend, reduced);
  } else {
    solve_sketch(method, last, backend, reduced);
  }
}

Solution sketched_solution(const Reduced& reduced, Backend& backend, Report& report) {
  const ProblemShape& shape = reduced.job.shape;
  const std::vector<double> residual = residual_by_sketch(reduced.sketch, shape, reduced.solution.x, backend);
  estimate_quality(split_residual(residual, shape.r, reduced.job.held_back), reduced.job.spec.d, reduced.job.held_back,
                   reduced.solution, reduced.factor, reduced.sketch.b_norm, report);
  return {reduced.solution.x, {}};
}

}  // namespace tallsketch
