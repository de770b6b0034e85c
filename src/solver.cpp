#include "src/solver.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "src/certificate.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/reduced_solver.h"
#include "src/refine_pass.h"
#include "src/sketch_identity.h"
#include "src/sketch_pass.h"
#include "src/text.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// The other ranks wait while rank 0 factors, and are not stuck: a tenth of what one loaded core of the slowest machine
/// tried does.
constexpr double kSlowestFactor = 1e9;  // operations/s

Plan plan_together(const SketchOptions& options, const MethodOptions& method, std::uint64_t chunk_rows,
                   const RowSource& source, Backend& backend, const SolveContext& context, Report& report) {
  const ProblemShape& shape = source.shape();
  report.shape = shape;
  report.source = source.info();
  PlanLimits limits;
  context.comm.together([&] {
    report.sketch = make_sketch_spec(shape, options);
    report.reduce = to_word(options.reduce);
    if (is_half(report.sketch->precision)) report.scaling = to_word(options.scaling);
    limits = backend.plan_limits(*report.sketch, shape, method.method == SolveMethod::kRefine);
  });
  if (shape.m < 2 * report.sketch->d) {
    report.warnings.push_back(fmt::format(
        "m = {} is below 2 d = {}: sketching saves nothing here; an exact solver (numpy.linalg.lstsq, LAPACK "
        "gels) is as fast and better",
        shape.m, 2 * report.sketch->d));
  }
  limits.memory_bytes = context.comm.min(limits.memory_bytes);
  limits.chunk_rows = static_cast<std::int64_t>(chunk_rows);
  context.comm.together([&] { report.plan = make_plan(shape, *report.sketch, context.comm.size(), limits); });
  return *report.plan;
}

std::string column_list(const std::vector<std::int64_t>& columns) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMost, columns.size()); ++i)
    list += fmt::format("{}{}", i ? ", " : "", columns[i]);
  if (columns.size() > kMost) list += fmt::format(" and {} more", columns.size() - kMost);
  return list;
}

void require_full_rank(const ReducedSolution& solution, std::int64_t n, SketchPrecision precision) {
  const bool one = solution.dependent.size() == 1;
  require(solution.rank == n, ErrorKind::kRankDeficient,
          fmt::format(
              "the {} sketch of A has numerical rank {} of {}; {} {} (0-based) {}; if so, leave {} out; if not, the "
              "sketch lost {}: use a larger --oversample or --zeta{}",
              to_word(precision), solution.rank, n, one ? "column" : "columns", column_list(solution.dependent),
              one ? "is zero or depends on earlier ones" : "are zero or depend on earlier ones", one ? "it" : "them",
              one ? "it" : "them",
              precision == SketchPrecision::kFp64 ? "" : ", or --precision fp64, which resolves more"));
}

/// x of extreme data may leave double's range although the sketch did not.
void require_finite_x(const ReducedSolution& solution) {
  const auto worst =
      std::find_if(solution.x.begin(), solution.x.end(), [](double value) { return !std::isfinite(value); });
  require(worst == solution.x.end(), ErrorKind::kNonFinite,
          fmt::format("coefficient {} of x (0-based) leaves the range of float64; scale its column of A up, or b down",
                      worst - solution.x.begin()));
}

/// Residual figures that the sketch alone can give. With r* the best residual: the sketched minimum is about
/// sqrt(1 - n/d) ||r*||, and the sketched solution's residual about ||r*|| / sqrt(1 - n/d) (docs/numerics.md).
void estimate_quality(const ReducedSolution& solution, double b_norm, SolverOutcome& outcome, const SketchSpec& spec,
                      std::int64_t n) {
  const double shrink = 1 - static_cast<double>(n) / static_cast<double>(spec.d);
  double sketched = 0, x_norm = 0;  // by hypot: squares may leave the range of double
  for (const double residual : solution.sketched_residual) sketched = std::hypot(sketched, residual);
  for (const double x : solution.x) x_norm = std::hypot(x_norm, x);
  outcome.residual_norm = sketched / shrink;
  outcome.relative_residual = b_norm == 0 ? 0.0 : *outcome.residual_norm / b_norm;
  outcome.residual_excess_estimate = 1 / std::sqrt(shrink) - 1;
  outcome.x_norm = x_norm;
  // ||A (x - x*)||^2 = ||A x - b||^2 - ||r*||^2, spread over the range of A without preference.
  const double excess = *outcome.residual_excess_estimate;
  const double moved = *outcome.residual_norm * std::sqrt(1 - 1 / ((1 + excess) * (1 + excess)));
  if (x_norm > 0) outcome.x_error_estimate = moved * (solution.spread / x_norm);
  outcome.converged = true;
  outcome.reason = fmt::format("sketch-solve, {} over A", outcome.passes == 1 ? "one pass" : "with more passes");
}

/// What rank 0 knows once the sketch is solved.
struct SketchedSolution {
  SketchJob job;
  FinishedSketch sketch;
  TriangularFactor factor;   // rank 0
  ReducedSolution solution;  // rank 0
};

/// Plan, one pass and an all-reduce, then on rank 0 the QR of the sketch and R11 x = R12. Collective.
SketchedSolution solve_sketched(const SketchOptions& options, const MethodOptions& method, std::uint64_t chunk_rows,
                                RowSource& source, Backend& backend, const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const ProblemShape& shape = source.shape();

  // Plan first: sizes and memory decide everything before a row is read.
  const Plan plan = plan_together(options, method, chunk_rows, source, backend, context, report);
  const SketchSpec& spec = *report.sketch;
  const SketchJob job{spec,
                      shape,
                      plan,
                      plan.rank_rows[static_cast<std::size_t>(comm.rank())],
                      options.scaling,
                      options.reduce,
                      method.method == SolveMethod::kRefine};
  context.progress.line(fmt::format("sketch: {}, {}, seed {}", describe(spec), to_word(spec.precision), spec.seed));
  context.progress.line("plan: " + describe(plan) + (job.refine ? ", then refinement passes" : ""));

  // One pass and an all-reduce: S [A | b], d x (n + r), on every rank. (Columns that leave its range: scaled, once more.)
  SketchedSolution sketched{job, sketch_in_range(job, source, backend, context, report), {}, {}};

  const auto cols = static_cast<double>(shape.n + shape.r);
  context.watchdog.enter("factor", 2 * static_cast<double>(spec.d) * cols * cols / kSlowestFactor);
  comm.together([&] {
    if (!comm.is_root()) return;
    context.timer.time(Phase::kFactor, [&] {
      sketched.factor = backend.factor();
      add_exponents(sketched.sketch.exponents, sketched.factor);
      sketched.solution = solve_reduced(sketched.factor, spec.d);
    });
    report.solver.rank = sketched.solution.rank;
    report.solver.condition_estimate = sketched.solution.condition;
  });
  return sketched;
}

/// Whether an FP64 sketch would see more than the one that was made.
bool may_go_to_fp64(const SketchOptions& used, ElementType stored) {
  return used.precision != SketchPrecision::kFp64 && stored == ElementType::kFloat64;
}

/// An FP32 sketch resolves no singular value below about 1e-6 of the largest: float64 data deserve one in FP64 before
/// their rank is judged or a certificate believed. Rank 0; infinite where rank is lost.
bool is_unresolved(const ReducedSolution& solution) {
  constexpr double kResolved = 1e6;
  return !(solution.condition <= kResolved);
}

/// Collective: what rank 0 says.
bool agreed(const Communicator& comm, bool said) { return comm.max(comm.is_root() && said ? 1 : 0) == 1; }

void go_to_fp64(SketchOptions& used, const char* why, const SolveContext& context, Report& report) {
  report.warnings.push_back(fmt::format("sketched again in FP64, because {}", why));
  context.progress.line(report.warnings.back());
  used.precision = SketchPrecision::kFp64;
  used.rounding = SketchRounding::kNearest;
  used.reduce = ReducePrecision::kFp32;
}

double auto_tolerance(ElementType type) { return type == ElementType::kFloat64 ? 1e-15 : 1e-12; }

/// Refines the sketched solution over all ranks. Collective.
RefineResult refined(const SketchedSolution& sketched, const MethodOptions& method, RowSource& source, Backend& backend,
                     const SolveContext& context, Report& report) {
  const double auto_tol = auto_tolerance(sketched.job.shape.a_type);
  const RefineOptions options{method.tolerance > 0 ? method.tolerance : auto_tol, method.max_passes, 0};
  const bool kept = backend.keeps_rows() && sketched.sketch.exponents.empty();
  if (!kept) {
    const ProblemShape& shape = source.shape();
    context.progress.line(fmt::format("refine: every pass over A reads {} from the files again",
                                      bytes_text(shape.m * shape.a_row_bytes())));
  }
  return refine_on_all_ranks(sketched.job, {sketched.factor, sketched.solution.x, sketched.sketch.b_norms}, options,
                             kept, source, backend, context, report);
}

/// What the certificate says of x, over all right-hand sides.
void record_refinement(const RefineResult& result, double b_norm, SolverOutcome& outcome) {
  outcome.method = to_word(SolveMethod::kRefine);
  outcome.converged = result.converged;
  outcome.reason = reason_text(result.reason);
  outcome.iterations = static_cast<int>(result.iterations);
  outcome.backward_error = *std::max_element(result.backward_error.begin(), result.backward_error.end());
  outcome.residual_norm = norm_of(result.residual_norm);
  outcome.normal_residual = norm_of(result.normal_residual);
  outcome.relative_residual = b_norm == 0 ? 0.0 : *outcome.residual_norm / b_norm;
  outcome.x_norm = norm_of(result.x);
}

}  // namespace

std::vector<double> solve(const SketchOptions& options, const MethodOptions& method, std::uint64_t chunk_rows,
                          RowSource& source, Backend& backend, const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const auto [m, n, r, stored] = source.shape();
  const bool refines = method.method == SolveMethod::kRefine;
  SketchOptions used = options;
  // d / n by default: 2n, 4n, 8n, 12n take 44, 28, 20, 17 passes (docs/decisions/0016), and the sketch costs more with d.
  constexpr double kRefineRatio = 8;
  if (refines && used.oversample == 0) used.oversample = kRefineRatio;

  while (true) {
    const SketchedSolution sketched = solve_sketched(used, method, chunk_rows, source, backend, context, report);
    const bool may_repeat = refines && may_go_to_fp64(used, stored);
    if (may_repeat && agreed(comm, is_unresolved(sketched.solution))) {
      go_to_fp64(used, "the condition exceeds 1e6", context, report);
      continue;
    }
    comm.together([&] {
      if (!comm.is_root()) return;
      require_full_rank(sketched.solution, n, used.precision);
      require_finite_x(sketched.solution);
      if (!refines) estimate_quality(sketched.solution, sketched.sketch.b_norm, report.solver, *report.sketch, n);
    });
    if (!refines) return sketched.solution.x;

    // Passes over A, until the backward error is certified by a sketch that can be believed.
    const RefineResult result = refined(sketched, method, source, backend, context, report);
    if (may_repeat && agreed(comm, result.reason == RefineReason::kSketchMisfit)) {
      go_to_fp64(used, "the first sketch is too coarse for this matrix", context, report);
      continue;
    }
    if (comm.is_root()) record_refinement(result, sketched.sketch.b_norm, report.solver);
    return result.x;
  }
}

}  // namespace tallsketch
