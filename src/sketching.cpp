#include "src/sketching.h"

#include <utility>

#include <fmt/format.h>

#include "src/checkpoint_keeper.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/offset_source.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/row_ranges.h"
#include "src/sketch_file.h"
#include "src/sketch_identity.h"
#include "src/sketch_pass.h"
#include "src/solver.h"

namespace tallsketch {

namespace {

void require_in_matrix(const MatrixPlace& place, const ProblemShape& shape) {
  const std::int64_t end = place.first_row + shape.m;
  require(place.total_rows == 0 || end <= place.total_rows, ErrorKind::kUsage,
          fmt::format("the files hold the rows [{}, {}), beyond --total-rows {}; correct --first-row or --total-rows",
                      place.first_row, end, place.total_rows));
}

/// Whole batches a rank, counted from the first row here: where that cuts batches of S, their maps are made twice, no more.
std::vector<RowRange> rows_of_ranks(const MatrixPlace& place, std::int64_t m, std::int64_t batch_rows, int ranks) {
  std::vector<RowRange> rows = split_rows(m, batch_rows, ranks);
  for (RowRange& range : rows) range = {range.begin + place.first_row, range.end + place.first_row};
  return rows;
}

SketchJob job_at_place(const SketchOptions& options, const MatrixPlace& place, std::uint64_t chunk_rows,
                       const RowSource& source, Backend& backend, const SolveContext& context) {
  const Communicator& comm = context.comm;
  const ProblemShape& shape = source.shape();
  SketchJob job;
  comm.together([&] {
    require_in_matrix(place, shape);
    MethodOptions one_pass;
    one_pass.method = SolveMethod::kSketchSolve;
    const Attempt attempt = attempt_for_file(options, shape);
    job = unplanned_job(attempt, one_pass, source);
    // What is returned, and its file twice (HDF5's and the bytes of it) while the last checkpoint is still there.
    job.sketch_copies = context.keeper != nullptr ? 4 : 3;
    ProblemShape whole = shape;
    whole.m = place.total_rows > 0 ? place.total_rows : place.first_row + shape.m;
    job.spec = make_sketch_spec(whole, attempt.sketch);
  });
  PlanLimits limits = agreed_limits(job, chunk_rows, backend, comm);
  limits.rank_rows = rows_of_ranks(place, shape.m, job.spec.batch_rows, comm.size());
  comm.together([&] { job.plan = make_plan(shape, job.spec, comm.size(), limits); });
  job.rows = job.plan.rank_rows[static_cast<std::size_t>(comm.rank())];
  return job;
}

}  // namespace

StoredSketch sketch_rows_of(const SketchOptions& options, const MatrixPlace& place, std::uint64_t chunk_rows,
                            RowSource& source, Backend& backend, const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const ProblemShape& shape = source.shape();
  report.shape = shape;
  report.source = source.info();
  const SketchJob job = job_at_place(options, place, chunk_rows, source, backend, context);
  StoredSketch stored;
  stored.spec = job.spec;
  stored.check_rows = job.held_back.count;
  stored.n = shape.n;
  stored.r = shape.r;
  stored.a_type = shape.a_type;
  stored.rows = {{place.first_row, place.first_row + shape.m}};
  stored.files = source.info().files;
  report.sketch = job.spec;
  report.solver.check_rows = stored.check_rows;
  report.sketch_rows = stored.rows;
  report.reduce = to_word(job.reduce);
  if (is_half(job.spec.precision)) report.scaling = to_word(job.scaling);
  report.plan = job.plan;
  context.progress.line(describe_job(job));
  context.progress.line(fmt::format("rows: {} of the matrix", describe(stored.rows)));
  context.progress.line("plan: " + describe(job.plan));

  if (context.keeper != nullptr) {
    if (context.keeper->resumes()) report.warnings = context.keeper->warnings();
    context.keeper->begin_attempt(attempt_for_file(options, shape), job.spec.d, report.warnings);
  }
  OffsetSource rows(source, place.first_row);
  FinishedSketch finished = sketch_in_range(job, {}, rows, backend, context, report);
  if (context.keeper != nullptr) context.keeper->save_finished(backend, finished, stored.rows.front());
  stored.exponents = finished.exponents;
  stored.b_squares = std::move(finished.b_squares);
  comm.together([&] {
    if (comm.is_root()) stored.sketch = backend.sketch_copy();
  });
  return stored;
}

StoredSketch merged_sketches(const std::vector<std::string>& paths) {
  StoredSketch sum = read_sketch(paths.front());
  for (std::size_t i = 1; i < paths.size(); ++i) {
    add(read_sketch(paths[i]), paths[i], i == 1 ? paths.front() : "the files before it", sum);
  }
  return sum;
}

}  // namespace tallsketch
