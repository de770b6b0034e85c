#include "src/outcome.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "src/certificate.h"
#include "src/choices.h"
#include "src/error.h"

namespace tallsketch {

namespace {

std::string column_list(const std::vector<std::int64_t>& columns) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMost, columns.size()); ++i)
    list += fmt::format("{}{}", i ? ", " : "", columns[i]);
  if (columns.size() > kMost) list += fmt::format(" and {} more", columns.size() - kMost);
  return list;
}

}  // namespace

SketchResidual split_residual(const std::vector<double>& residual, std::int64_t r, const CheckRows& held_back) {
  std::vector<double> used, check;
  for (std::size_t i = 0; i < residual.size(); ++i) {
    (held_back.holds(static_cast<std::int64_t>(i) / r) ? check : used).push_back(residual[i]);
  }
  return {norm_of(used), norm_of(check)};
}

void record_reduced(const TriangularFactor& factor, const ReducedSolution& solution, Compression compression,
                    const MethodOptions& method, SolverOutcome& outcome) {
  outcome.method = to_word(method.method);
  if (method.method == SolveMethod::kRefine) {
    outcome.preconditioner =
        to_word(compression == Compression::kGram ? PreconditionerChoice::kGram : PreconditionerChoice::kSketch);
  }
  const bool spectral = solution.by == ReducedMethod::kSpectral;
  outcome.reduced_solver = to_word(spectral                                   ? ReducedSolverChoice::kSvd
                                   : factor.method == FactorMethod::kCholesky ? ReducedSolverChoice::kCholesky
                                                                              : ReducedSolverChoice::kQr);
  outcome.ridge = method.ridge;
  outcome.rank = solution.rank;
  outcome.condition_estimate = solution.condition;
}

void require_full_rank(const ReducedSolution& solution, std::int64_t n, SketchPrecision precision) {
  const bool one = solution.dependent.size() == 1;
  require(solution.rank == n, ErrorKind::kRankDeficient,
          fmt::format(
              "the {} sketch of A has numerical rank {} of {}; {} {} (0-based) {}; if so, leave {} out, or take the "
              "minimum-norm solution with --rank-deficient min-norm; if not, the sketch lost {}: use a larger "
              "--oversample or --zeta{}",
              to_word(precision), solution.rank, n, one ? "column" : "columns", column_list(solution.dependent),
              one ? "is zero or depends on others" : "are zero or depend on others", one ? "it" : "them",
              one ? "it" : "them",
              precision == SketchPrecision::kFp64 ? "" : ", or --precision fp64, which resolves more"));
}

void require_finite_x(const std::vector<double>& x) {
  const auto worst = std::find_if(x.begin(), x.end(), [](double value) { return !std::isfinite(value); });
  require(worst == x.end(), ErrorKind::kNonFinite,
          fmt::format("coefficient {} of x (0-based) leaves the range of float64; scale its column of A up, or b down",
                      worst - x.begin()));
}

void estimate_quality(const SketchResidual& residual, std::int64_t d, const CheckRows& held_back,
                      const ReducedSolution& solution, const TriangularFactor& factor, double b_norm, Report& report) {
  SolverOutcome& outcome = report.solver;
  // The rows that x was made from are a sketch of their own, once their share of S is made up for.
  const auto rows = static_cast<double>(d - held_back.count), r = static_cast<double>(factor.r);
  const double sketched = residual.used * std::sqrt(static_cast<double>(d) / rows);
  const double x_norm = norm_of(solution.x);
  // A ridge leaves rank - lambda ||D N||_F^2 degrees of freedom, and its rows, which are not sketched, add to a residual.
  const auto rank = static_cast<double>(solution.rank);
  const double freedom = std::max(0.0, rank - outcome.ridge * solution.spread * solution.spread * rank);
  const double shrink = 1 - freedom / rows;
  const double ridge_part = std::sqrt(outcome.ridge) * x_norm;
  // With r* the best residual: the sketched minimum is about sqrt(shrink) ||r*||, and ||A x - b|| about ||r*|| / sqrt(shrink).
  const double best = std::hypot(sketched / std::sqrt(shrink), ridge_part);
  outcome.residual_norm = std::hypot(sketched / shrink, ridge_part);
  outcome.relative_residual = b_norm == 0 ? 0.0 : *outcome.residual_norm / b_norm;
  outcome.residual_excess_estimate = best > 0 ? *outcome.residual_norm / best - 1 : 1 / std::sqrt(shrink) - 1;
  outcome.x_norm = x_norm;
  if (held_back.count > 0) {
    const auto checks = static_cast<double>(held_back.count);
    const double measured = std::hypot(residual.check * std::sqrt(static_cast<double>(d) / checks), ridge_part);
    outcome.residual_check = measured;
    outcome.check_rows = held_back.count;
    if (best > 0) outcome.residual_excess_check = measured / best - 1;
    constexpr double kFar =
        4;  // standard deviations, about: of checks r squares of normal numbers, and of the estimate
    const double deviation = std::hypot(1 / std::sqrt(2 * checks * r), 1 / std::sqrt((rows - freedom) * r));
    if (measured > *outcome.residual_norm * (1 + kFar * deviation)) {
      report.warnings.push_back(fmt::format(
          "{} sketch rows that x has not seen give ||A x - b|| = {:.3g}, well above the expected {:.3g}: this sketch "
          "fits A badly; raise --oversample or --zeta, or use --method refine",
          held_back.count, measured, *outcome.residual_norm));
    }
  }
  // ||A (x - x*)||^2 = ||A x - b||^2 - ||r*||^2, spread over the range of A without preference.
  const double seen = std::max(*outcome.residual_norm, outcome.residual_check.value_or(0));
  const double moved = std::sqrt(std::max(0.0, (seen - best) * (seen + best)));
  if (x_norm > 0) outcome.x_error_estimate = moved * (solution.spread / x_norm);
  // Moving b by A (x* - x) makes x exact; so does a change of A and b of this size together.
  std::vector<double> y = solution.x;
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = std::ldexp(y[i], -factor.exponent[i / static_cast<std::size_t>(factor.r)]);
  }
  const double a_norm = solution.preconditioner->frobenius_norm();
  const double size = std::hypot(a_norm * norm_of(y), b_norm);
  outcome.backward_error_estimate = size == 0 || moved == 0 ? 0.0 : moved / size;
  outcome.converged = true;
  outcome.reason = outcome.passes == 0
                       ? "sketch-solve, from a sketch that was made before"
                       : fmt::format("sketch-solve, {} over A", outcome.passes == 1 ? "one pass" : "with more passes");
}

void record_refinement(const RefineResult& result, double b_norm, SolverOutcome& outcome) {
  outcome.method = to_word(SolveMethod::kRefine);
  outcome.converged = result.converged;
  outcome.reason = reason_text(result.reason);
  outcome.iterations = static_cast<int>(result.iterations);
  outcome.backward_error = *std::max_element(result.backward_error.begin(), result.backward_error.end());
  outcome.residual_norm = norm_of(result.residual_norm);
  outcome.normal_residual = norm_of(result.normal_residual);
  outcome.relative_residual = b_norm == 0 ? 0.0 : *outcome.residual_norm / b_norm;
  // ||A x - b||^2 = ||r*||^2 + ||A (x - x*)||^2, and the last is about ||N^T g||^2.
  const double moved = norm_of(result.preconditioned_gradient);
  if (*outcome.residual_norm > 0) {
    const double share = moved / *outcome.residual_norm;
    if (share < 1) outcome.residual_excess_estimate = 1 / std::sqrt(1 - share * share) - 1;
  } else {
    outcome.residual_excess_estimate = 0;
  }
  outcome.x_norm = norm_of(result.x);
}

double standard_error_spread(std::int64_t sketch_rows, const ReducedSolution& solution) {
  const auto n = static_cast<double>(solution.preconditioner->size());
  if (sketch_rows == 0) return n * 0x1p-53 * solution.condition * solution.condition;
  return 1 / std::sqrt(2 * std::max(1.0, static_cast<double>(sketch_rows) - static_cast<double>(solution.rank)));
}

std::vector<double> standard_errors(const ReducedSolution& solution, const TriangularFactor& factor,
                                    const RefineResult& result, const ProblemShape& shape, std::int64_t sketch_rows) {
  const double freedom = static_cast<double>(shape.m - solution.rank);
  double shrink = 1;
  if (sketch_rows > 0) {
    const auto d = static_cast<double>(sketch_rows);
    shrink = std::sqrt(std::max(1.0, d - static_cast<double>(solution.rank) - 1) / d);
  }
  std::vector<double> errors;
  const std::vector<double> norms = solution.preconditioner->row_norms();
  for (std::size_t j = 0; j < norms.size(); ++j) {
    for (const double residual : result.residual_norm) {
      errors.push_back(std::ldexp(norms[j] * shrink, factor.exponent[j]) * (residual / std::sqrt(freedom)));
    }
  }
  return errors;
}

}  // namespace tallsketch
