#include "src/study_solves.h"

#include <cmath>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/planning.h"
#include "src/sketch_pass.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// What the timer gained in a phase, on the slowest rank. Collective.
double gained(Phase phase, const PhaseTimer& timer, const PhaseTimer& before, const Communicator& comm) {
  double seconds = timer.seconds(phase) - before.seconds(phase);
  comm.max(&seconds, 1);
  return seconds;
}

}  // namespace

StudySolves::StudySolves(RowSource& source, std::uint64_t chunk_rows, Backend& backend, const SolveContext& context)
    : source_(source), chunk_rows_(chunk_rows), backend_(backend), context_(context) {
  Report scratch;
  Attempt attempt;
  attempt.compression = Compression::kGram;  // the least memory beside the rows
  rows_.job = plan_together(attempt, {}, chunk_rows, nullptr, source, backend, context, scratch);
  context.comm.together([&] {
    require(
        rows_.job.plan.residency != Residency::kFile, ErrorKind::kMemory,
        fmt::format("--rows {} --cols {} do not stay in memory, as the many solves of a study need; use fewer, more "
                    "--memory or more ranks",
                    source.shape().m, source.shape().n));
  });
  rows_.b_norms = sketch_in_range(rows_.job, {}, source, backend, context, scratch).b_norms;
}

JudgedSolve StudySolves::solve(const SketchOptions& sketch, const MethodOptions& method) {
  const Communicator& comm = context_.comm;
  JudgedSolve solved;
  Report report;
  const PhaseTimer before = context_.timer;
  try {
    context_.timer.time(Phase::kTotal, [&] {
      solved.x = tallsketch::solve(sketch, method, chunk_rows_, source_, backend_, context_, report, &rows_).x;
    });
  } catch (const Error& e) {
    if (!e.agreed() || (e.kind() != ErrorKind::kNonFinite && e.kind() != ErrorKind::kRankDeficient)) throw;
    solved.failure = e.kind();
  }
  if (report.losses) solved.losses = *report.losses;
  if (solved.failure) return solved;
  solved.seconds = gained(Phase::kTotal, context_.timer, before, comm);
  solved.sketch_seconds = gained(Phase::kSketch, context_.timer, before, comm);
  solved.factor_seconds = gained(Phase::kFactor, context_.timer, before, comm);
  solved.refine_seconds = gained(Phase::kRefine, context_.timer, before, comm);
  solved.passes = report.solver.passes;
  solved.escalated = report.sketch && report.sketch->precision != sketch.precision;
  solved.converged = comm.max(comm.is_root() && !report.solver.converged ? 1 : 0) == 0;
  judge(method.ridge, solved);
  return solved;
}

JudgedSolve StudySolves::exact(double ridge) {
  MethodOptions method;
  method.ridge = ridge;
  method.tolerance = 1e-15;
  JudgedSolve solved = solve({}, method);
  context_.comm.together([&] {
    require(!solved.failure && solved.converged, ErrorKind::kNotConverged,
            "no certified least-squares solution to compare with; use another --data-seed or more --rows");
  });
  return solved;
}

void StudySolves::judge(double ridge, JudgedSolve& solved) {
  const Communicator& comm = context_.comm;
  std::vector<double> x = solved.x;
  x.resize(static_cast<std::size_t>(source_.shape().n));
  comm.broadcast(x.data(), static_cast<std::int64_t>(x.size() * sizeof(double)));
  context_.watchdog.enter("judge x", pass_seconds(rows_.job, true));
  double squares = 0;
  comm.together([&] {
    require(backend_.keeps_rows(), ErrorKind::kInternal, "the rows of a study are gone");
    backend_.normal_begin(x, true);
    backend_.normal_add_kept();
    squares = backend_.normal_end().residual_squares.front();
  });
  comm.sum(&squares, 1);
  double x_squares = 0;
  for (const double value : x) x_squares += value * value;
  solved.residual = std::sqrt(squares) / b_norm();
  solved.objective = std::sqrt(squares + ridge * x_squares);
}

}  // namespace tallsketch
