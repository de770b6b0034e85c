#include "src/solver.h"

#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/non_finite.h"
#include "src/progress.h"
#include "src/reduced_solver.h"
#include "src/row_pass.h"
#include "src/sketch_identity.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// A rank that waits for a slower one is not stuck: a pass is expected to run at least this fast.
/// A tenth of what one loaded core of the slowest machine tried reads and factors.
constexpr double kSlowestRead = 0.2e9;  // bytes/s
constexpr double kSlowestFactor = 1e9;  // operations/s

Plan plan_together(const SketchOptions& options, std::uint64_t chunk_rows, const RowSource& source, Backend& backend,
                   const SolveContext& context, Report& report) {
  const ProblemShape& shape = source.shape();
  report.shape = shape;
  report.source = source.info();
  PlanLimits limits;
  context.comm.together([&] {
    report.sketch = make_sketch_spec(shape, options);
    report.reduce = to_word(options.reduce);
    if (is_half(report.sketch->precision)) report.scaling = to_word(options.scaling);
    limits = backend.plan_limits(*report.sketch, shape);
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

/// One pass: every row of this rank goes from the source to the backend. Returns ||b||^2 of these rows.
double sketch_rows(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context) {
  const std::int64_t row_bytes = job.shape.a_row_bytes();
  double b_squared = 0;
  for_each_chunk(job.rows, job.plan.chunk_rows, [&](RowRange rows) {
    ChunkBuffer& chunk = backend.next_buffer();
    chunk.rows = rows;
    context.timer.time(Phase::kRead, [&] { source.read(rows, chunk.a, chunk.b); });
    for (std::int64_t i = 0; i < rows.size() * job.shape.r; ++i) b_squared += chunk.b[i] * chunk.b[i];
    backend.upload(chunk);
    context.watchdog.touch();
    const auto done = static_cast<double>(rows.end - job.rows.begin);
    context.progress.fraction("sketch", done / static_cast<double>(job.rows.size()),
                              done * static_cast<double>(row_bytes));
  });
  return b_squared;
}

/// Collective: what a 16-bit sketch lost on all ranks, for the report and, if it is anything, as a warning.
void count_losses(const SketchSpec& spec, const ProblemShape& shape, Backend& backend, const Communicator& comm,
                  Report& report) {
  RoundingLosses mine;
  comm.together([&] { mine = backend.losses(); });
  std::array<std::int64_t, 2> all = {static_cast<std::int64_t>(mine.overflowed),
                                     static_cast<std::int64_t>(mine.flushed)};
  comm.sum(all.data(), 2);
  const auto [overflowed, flushed] = all;
  report.losses = {static_cast<unsigned long long>(overflowed), static_cast<unsigned long long>(flushed)};
  if (overflowed == 0 && flushed == 0) return;
  report.warnings.push_back(fmt::format(
      "{} sketch: of {:.3g} contributions {} overflowed and {} that were not zero became zero; {}--precision fp32 "
      "loses none",
      to_word(spec.precision),
      static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(spec.zeta), overflowed, flushed,
      report.scaling == "none" ? "--scaling auto loses fewer, " : ""));
}

std::string column_list(const std::vector<std::int64_t>& columns) {
  constexpr std::size_t kMost = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(kMost, columns.size()); ++i)
    list += fmt::format("{}{}", i ? ", " : "", columns[i]);
  if (columns.size() > kMost) list += fmt::format(" and {} more", columns.size() - kMost);
  return list;
}

void require_full_rank(const ReducedSolution& solution, std::int64_t n) {
  const bool one = solution.dependent.size() == 1;
  require(solution.rank == n, ErrorKind::kRankDeficient,
          fmt::format("A has numerical rank {} of {} at the precision of an FP32 sketch (float64 data too); {} {} "
                      "(0-based) {}; leave {} out",
                      solution.rank, n, one ? "column" : "columns", column_list(solution.dependent),
                      one ? "is zero or depends on earlier ones" : "are zero or depend on earlier ones",
                      one ? "it" : "them"));
}

/// Residual figures that the sketch alone can give. With r* the best residual: the sketched minimum is about
/// sqrt(1 - n/d) ||r*||, and the sketched solution's residual about ||r*|| / sqrt(1 - n/d) (docs/numerics.md).
void estimate_quality(const ReducedSolution& solution, double b_squared, SolverOutcome& outcome, const SketchSpec& spec,
                      std::int64_t n) {
  const double shrink = 1 - static_cast<double>(n) / static_cast<double>(spec.d);
  double sketched = 0, x_squared = 0;
  for (const double residual : solution.sketched_residual) sketched += residual * residual;
  for (const double x : solution.x) x_squared += x * x;
  outcome.residual_norm = std::sqrt(sketched) / shrink;
  outcome.relative_residual = b_squared > 0 ? *outcome.residual_norm / std::sqrt(b_squared) : 0.0;
  outcome.residual_excess_estimate = 1 / std::sqrt(shrink) - 1;
  outcome.x_norm = std::sqrt(x_squared);
  // ||A (x - x*)||^2 = ||A x - b||^2 - ||r*||^2, spread over the range of A without preference.
  const double excess = *outcome.residual_excess_estimate;
  const double moved = *outcome.residual_norm * std::sqrt(1 - 1 / ((1 + excess) * (1 + excess)));
  if (x_squared > 0) outcome.x_error_estimate = moved * solution.spread / *outcome.x_norm;
  outcome.converged = true;
  outcome.reason = "sketch-solve: one pass, as asked";
}

}  // namespace

std::vector<double> solve(const SketchOptions& options, std::uint64_t chunk_rows, RowSource& source, Backend& backend,
                          const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const ProblemShape& shape = source.shape();

  // Plan first: sizes and memory decide everything before a row is read.
  const Plan plan = plan_together(options, chunk_rows, source, backend, context, report);
  const SketchSpec& spec = *report.sketch;
  const SketchJob job{
      spec, shape, plan, plan.rank_rows[static_cast<std::size_t>(comm.rank())], options.scaling, options.reduce};
  context.progress.line(fmt::format("sketch: {}, {}, seed {}", describe(spec), to_word(spec.precision), spec.seed));
  context.progress.line("plan: " + describe(plan));

  // One pass: every rank adds S_p [A_p | b_p] of its rows to its own sketch.
  const std::int64_t slab_bytes = plan.rank_rows.front().size() * shape.a_row_bytes();
  context.watchdog.enter("sketch", static_cast<double>(slab_bytes) / kSlowestRead);
  double b_squared = 0;
  comm.together([&] {
    backend.begin(job);
    b_squared = sketch_rows(job, source, backend, context);
    source.check_unchanged();
  });
  backend.exchange();
  comm.together([&] { backend.sketch(); });
  count_losses(spec, shape, backend, comm, report);
  b_squared = comm.sum(b_squared);
  report.solver.passes = 1;
  report.bytes_read = shape.m * shape.a_row_bytes();

  // All-reduce: S [A | b], d x (n + r), on every rank.
  context.watchdog.enter("reduce");
  backend.reduce();
  SketchRange range;
  comm.together([&] { range = backend.sketch_range(); });
  // One answer for all ranks, whatever bits MPI gave each of them.
  const bool finite = comm.min(range.finite ? 1 : 0) == 1;
  if (!finite || comm.max(range.tiny_column ? 1 : 0) == 1) {
    context.watchdog.enter("look for values out of range", static_cast<double>(slab_bytes) / kSlowestRead);
    throw_if_out_of_range(source, job.rows, plan.chunk_rows, comm);
  }
  comm.together([&] {
    require(finite, ErrorKind::kNonFinite,
            fmt::format("every entry of A and b is in range, but their {} sketch overflowed; scale {}",
                        to_word(spec.precision),
                        spec.precision == SketchPrecision::kFp16 ? "with --scaling auto, or use --precision fp32"
                                                                 : "the largest columns or b down"));
  });

  // Rank 0: QR of the sketch, then R11 x = R12.
  const auto cols = static_cast<double>(shape.n + shape.r);
  context.watchdog.enter("factor", 2 * static_cast<double>(spec.d) * cols * cols / kSlowestFactor);
  ReducedSolution solution;
  comm.together([&] {
    if (!comm.is_root()) return;
    context.timer.time(Phase::kFactor, [&] { solution = solve_reduced(backend.factor(), spec.d); });
    report.solver.rank = solution.rank;
    report.solver.condition_estimate = solution.condition;
    require_full_rank(solution, shape.n);
    estimate_quality(solution, b_squared, report.solver, spec, shape.n);
  });
  return solution.x;
}

}  // namespace tallsketch
