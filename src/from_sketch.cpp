#include "src/from_sketch.h"

#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/outcome.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/reduced_problem.h"
#include "src/report.h"
#include "src/row_ranges.h"
#include "src/scaled_source.h"
#include "src/sketch_file.h"
#include "src/solver.h"
#include "src/text.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// What a backend is told: the values in the file are FP32 or FP64, whatever they were accumulated in.
SketchJob job_of_values(SketchJob job) {
  if (is_half(job.spec.precision)) {
    job.spec.precision = SketchPrecision::kFp32;
    job.spec.rounding = SketchRounding::kNearest;
  }
  return job;
}

/// The job without rows.
SketchJob rowless_job(const MadeSketch& made, Backend& backend, const Communicator& comm) {
  SketchJob job;
  job.spec = made.sketch.spec;
  job.shape = made.sketch.shape();
  job.encoding = plain_encoding(job.shape.a_type);
  job.held_back = made.sketch.held_back();
  job.sketch_copies = kMadeCopies;
  PlanLimits limits = agreed_limits(job_of_values(job), 1, backend, comm);
  limits.asked = ResidencyChoice::kAuto;  // there is nothing to keep
  limits.rank_rows.assign(static_cast<std::size_t>(comm.size()), RowRange{});
  comm.together([&] { job.plan = make_plan(job.shape, job.spec, comm.size(), limits); });
  return job;
}

}  // namespace

MadeSketch read_made_sketch(const std::string& path, const Communicator& comm) {
  MadeSketch made{{}, path};
  std::string identity;
  comm.together([&] {
    if (!comm.is_root()) return;
    made.sketch = read_sketch(path);
    identity = identity_json(made.sketch, "");
  });
  identity = comm.broadcast(identity);
  comm.together([&] {
    if (comm.is_root()) return;
    made.sketch = parse_identity(identity, fmt::format("'{}'", path));
    made.sketch.b_squares.resize(static_cast<std::size_t>(made.sketch.r));
  });
  comm.broadcast(made.sketch.b_squares.data(), made.sketch.r * 8);
  made.sketch.checksum = comm.broadcast(made.sketch.checksum);
  return made;
}

SourceInfo info_of(const MadeSketch& made) {
  SourceInfo info;
  info.files = {made.name};
  info.a_name = info.b_name = "/SA";
  info.dtype = to_word(made.sketch.a_type);
  info.layout = "a sketch";
  info.io_mode = "none: A is not read";
  return info;
}

Attempt attempt_of(const MadeSketch& made, const SketchOptions& asked, const MethodOptions& method,
                   const ProblemShape& shape) {
  check_method(asked, method, shape);
  require_no_contradiction(asked, made.sketch, made.name);
  require(method.preconditioner != PreconditionerChoice::kGram, ErrorKind::kUsage,
          "--preconditioner gram is made from A, not from a sketch: leave it or --from-sketch out");
  Attempt attempt{options_of(made.sketch), Compression::kSketch};
  attempt.from_file = true;
  attempt.sketch.scaling = asked.scaling;
  attempt.sketch.reduce = asked.reduce;
  if (method.method == SolveMethod::kRefine) {
    attempt.sketch.check_rows = 0;
    attempt.sketch.sketch_rows = made.sketch.spec.d;
  }
  return attempt;
}

Attempt attempt_of_matrix(const MadeSketch& made, const SketchOptions& asked, const MethodOptions& method,
                          const ProblemShape& shape, const Communicator& comm) {
  Attempt attempt;
  comm.together([&] {
    require_sketch_of(shape, made.sketch, made.name);
    attempt = attempt_of(made, asked, method, shape);
  });
  return attempt;
}

void note_sketch_file(const MadeSketch& made, Report& report) {
  report.sketch_file = made.name;
  report.sketch_rows = made.sketch.rows;
}

FinishedSketch take_sketch(const MadeSketch& made, const SketchJob& job, RowSource* source, Backend& backend,
                           const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const StoredSketch& stored = made.sketch;
  note_sketch_file(made, report);
  context.watchdog.enter("read", pass_seconds(job, false));
  std::optional<ScaledSource> scaled;
  std::vector<double> b_squares;
  bool reads = false;
  comm.together([&] {
    RowSource* rows = source;
    if (source != nullptr && !stored.exponents.empty()) rows = &scaled.emplace(*source, stored.exponents);
    SketchJob begun = job_of_values(job);
    if (rows != nullptr) begun.encoding = rows->encoding();
    backend.begin(begun);
    reads = rows != nullptr && backend.keeps_rows();
    if (reads) b_squares = upload_rows(begun, *rows, backend, context, true);
  });
  comm.together([&] {
    backend.sketch();
    if (comm.is_root()) backend.add_partial(stored.sketch);
  });
  if (reads) {
    comm.sum(b_squares.data(), job.shape.r);
    comm.together([&] { require_same_b(b_squares, stored.b_squares, made.name); });
    report.solver.passes += 1;
    report.bytes_read += job.shape.m * job.shape.a_row_bytes();
  }
  FinishedSketch sketch;
  sketch.exponents = stored.exponents;
  sketch.b_squares = stored.b_squares;
  sketch.b_norms = norms_of_b(stored.b_squares, stored.exponents, stored.n);
  for (const double norm : sketch.b_norms) sketch.b_norm = std::hypot(sketch.b_norm, norm);
  return sketch;
}

Solution solve_from_sketch(const MadeSketch& made, const SketchOptions& asked, const MethodOptions& method,
                           Backend& backend, const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const ProblemShape shape = made.sketch.shape();
  Attempt attempt;
  comm.together([&] { attempt = attempt_of(made, asked, method, shape); });
  Reduced reduced;
  reduced.job = rowless_job(made, backend, comm);
  report.shape = shape;
  report.sketch = reduced.job.spec;
  report.plan = reduced.job.plan;
  context.progress.line(describe_job(reduced.job));
  context.progress.line(
      fmt::format("from '{}': rows {} of the matrix, {} in all; A is not read, so all that is said of x "
                  "is estimated from the sketch of these rows",
                  made.name, describe(made.sketch.rows), shape.m));
  reduced.sketch = take_sketch(made, reduced.job, nullptr, backend, context, report);
  context.watchdog.enter("factor", factor_seconds(reduced.job));
  Solution solution;
  comm.together([&] {
    if (!comm.is_root()) return;
    context.timer.time(Phase::kFactor, [&] { solve_reduced_problem(method, true, backend, reduced); });
    record_reduced(reduced.factor, reduced.solution, Compression::kSketch, method, report.solver);
    if (method.rank_policy == RankPolicy::kError)
      require_full_rank(reduced.solution, shape.n, attempt.sketch.precision);
    require_finite_x(reduced.solution.x);
    solution = sketched_solution(reduced, backend, report);
  });
  return solution;
}

}  // namespace tallsketch
