#include "src/solver.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "src/attempt.h"
#include "src/checkpoint_keeper.h"
#include "src/column_scales.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/from_sketch.h"
#include "src/outcome.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/reduced_problem.h"
#include "src/refine_pass.h"
#include "src/scaled_source.h"
#include "src/sketch_pass.h"
#include "src/text.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// Collective: what rank 0 says.
bool agreed(const Communicator& comm, bool said) { return comm.max(comm.is_root() && said ? 1 : 0) == 1; }

/// What follows an attempt that does not resolve A; sketch-solve has one only.
std::optional<Attempt> next_attempt(const Attempt& attempt, const MethodOptions& method) {
  return method.method == SolveMethod::kRefine ? finer_attempt(attempt) : std::nullopt;
}

/// Plan, one pass over the rows and an all-reduce, then the reduced problem on rank 0. Collective.
/// kept  rows that the backend has already, or nothing
/// made  the sketch of this attempt, where there is one already
Reduced compress_and_solve(const Attempt& attempt, const MethodOptions& method, std::uint64_t chunk_rows,
                           const std::optional<KeptRows>& kept, const MadeSketch* made, RowSource& source,
                           Backend& backend, const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  Reduced reduced;
  // Plan first: sizes and memory decide everything before a row is read.
  reduced.job =
      plan_together(attempt, method, chunk_rows, kept ? &kept->job : nullptr, source, backend, context, report);

  if (context.keeper != nullptr) context.keeper->begin_attempt(attempt, reduced.job.spec.d, report.warnings);
  // One pass and an all-reduce: S [A | b] or [A | b]^T [A | b] on every rank. (Columns that leave its range: scaled, once more.)
  const std::vector<double> b_norms = kept ? kept->b_norms : std::vector<double>{};
  reduced.sketch = made != nullptr ? take_sketch(*made, reduced.job, &source, backend, context, report)
                                   : sketch_in_range(reduced.job, b_norms, source, backend, context, report);

  if (context.keeper != nullptr) context.keeper->save_finished(backend, reduced.sketch, {0, source.shape().m});

  context.watchdog.enter("factor", factor_seconds(reduced.job));
  comm.together([&] {
    if (!comm.is_root()) return;
    context.timer.time(Phase::kFactor,
                       [&] { solve_reduced_problem(method, !next_attempt(attempt, method), backend, reduced); });
    record_reduced(reduced.factor, reduced.solution, attempt.compression, method, report.solver);
  });
  return reduced;
}

void announce(const Attempt& finer, const std::string& why, const SolveContext& context, Report& report) {
  report.warnings.push_back(fmt::format("going on with an {}, because {}", describe(finer), why));
  context.progress.warning(report.warnings.back());
}

/// Whether the backend has all rows of this attempt as they are stored: rows that were scaled are others.
bool keeps_stored_rows(const Reduced& reduced, const Backend& backend) {
  return backend.keeps_rows() && reduced.sketch.exponents.empty();
}

/// What passes cost where rows are not kept: once, whatever further attempts there are.
void warn_of_passes(const Reduced& reduced, const SolveContext& context, Report& report) {
  const std::string start = "A does not stay in memory: ";
  const auto is_told = [&](const std::string& warning) { return warning.starts_with(start); };
  if (std::any_of(report.warnings.begin(), report.warnings.end(), is_told)) return;
  const ProblemShape& shape = reduced.job.shape;
  const double seconds = reduced.sketch.seconds;
  report.warnings.push_back(fmt::format(
      "{}every pass of the refinement, some {}, reads all {} again{}; more --memory or more ranks keep it, --method "
      "sketch-solve needs one pass only",
      start, std::max(1, reduced.job.plan.passes - 1), bytes_text(shape.m * shape.a_row_bytes()),
      seconds > 0 ? fmt::format(", about {:.2g} s each as the first took", seconds) : ""));
  context.progress.warning(report.warnings.back());
}

/// Refines the reduced problem's solution over all ranks. Collective.
/// file  that the sketch is of, whose b nobody may have compared with the source's yet; empty where a run made it
RefineResult refined(const Reduced& reduced, const std::string& file, const MethodOptions& method, RowSource& source,
                     Backend& backend, const SolveContext& context, Report& report) {
  const ProblemShape& shape = source.shape();
  if (!backend.keeps_rows()) warn_of_passes(reduced, context, report);
  RefineOptions options{method.tolerance, method.max_passes, method.ridge, {}};
  const BOfSketch b{reduced.sketch.b_squares, file};
  if (reduced.sketch.exponents.empty()) {
    return refine_on_all_ranks(reduced.job, {reduced.factor, reduced.solution, reduced.sketch.b_norms}, b, options,
                               backend.keeps_rows(), source, backend, context, report);
  }
  // Columns that left the range of the sketch leave that of a pass, too: refined as they were sketched, scaled.
  const ColumnScales scales(reduced.sketch.exponents, shape);
  ScaledSource scaled(source, reduced.sketch.exponents);
  options.ridge_exponent = scales.of_a();
  TriangularFactor factor = reduced.factor;
  ReducedSolution solution = reduced.solution;
  scales.take_out(factor);
  scales.scale(solution.x);
  RefineResult result =
      refine_on_all_ranks(reduced.job, {factor, solution, scales.scaled_norms(reduced.sketch.b_norms)}, b, options,
                          backend.keeps_rows(), scaled, backend, context, report);
  scales.undo(result);
  return result;
}

}  // namespace

Solution solve(const SketchOptions& sketch, const MethodOptions& asked, std::uint64_t chunk_rows, RowSource& source,
               Backend& backend, const SolveContext& context, Report& report, const KeptRows* kept_rows,
               const MadeSketch* made) {
  const Communicator& comm = context.comm;
  const auto [m, n, r, type] = source.shape();
  const bool refines = asked.method == SolveMethod::kRefine;
  MethodOptions method = asked;
  method.tolerance = tolerance_for(method, type);
  Attempt attempt = made != nullptr ? attempt_of_matrix(*made, sketch, method, source.shape(), comm)
                                    : first_attempt(sketch, method, source, comm.size(), kept_rows != nullptr, backend,
                                                    comm, context.progress);

  const std::string made_name = made != nullptr ? made->name : "";
  const int made_copies = made != nullptr ? kMadeCopies : 0;
  if (context.keeper != nullptr && context.keeper->resumes()) {
    attempt = context.keeper->attempt();
    report.warnings = context.keeper->warnings();
    if (made != nullptr) note_sketch_file(*made, report);
    made = nullptr;  // the checkpoint has it
  }
  attempt.sketch_copies = copies_for_checkpoints(context) + made_copies;
  std::optional<KeptRows> kept;
  if (kept_rows != nullptr) kept = *kept_rows;
  while (true) {
    const Reduced reduced =
        compress_and_solve(attempt, method, chunk_rows, kept, made, source, backend, context, report);
    made = nullptr;  // a finer attempt is made from A
    kept.reset();
    if (keeps_stored_rows(reduced, backend)) kept = {reduced.job, reduced.sketch.b_norms};
    // What A hides from this attempt, a finer one may see: before rank is judged or a certificate believed.
    const std::optional<Attempt> finer = next_attempt(attempt, method);
    const bool resolved = reduced.solution.condition <= resolved_condition(attempt);
    if (finer && agreed(comm, !resolved)) {
      announce(*finer, fmt::format("the condition exceeds {:.0e}", resolved_condition(attempt)), context, report);
      attempt = *finer;
      continue;
    }
    Solution solution;
    comm.together([&] {
      if (!comm.is_root()) return;
      if (asked.rank_policy == RankPolicy::kError) require_full_rank(reduced.solution, n, attempt.sketch.precision);
      require_finite_x(reduced.solution.x);
      if (!refines) solution = sketched_solution(reduced, backend, report);
    });
    if (!refines) return solution;

    // Passes over A, until the backward error is certified by a preconditioner that can be believed.
    const RefineResult result =
        refined(reduced, attempt.from_file ? made_name : "", method, source, backend, context, report);
    if (finer && agreed(comm, result.reason == RefineReason::kSketchMisfit)) {
      announce(*finer, "the first is too coarse for this matrix", context, report);
      attempt = *finer;
      continue;
    }
    comm.together([&] {
      if (!comm.is_root()) return;
      record_refinement(result, reduced.sketch.b_norm, report.solver);
      solution.x = result.x;
      if (method.standard_errors) {
        const std::int64_t d = attempt.compression == Compression::kGram ? 0 : reduced.job.spec.d;
        report.solver.standard_error_spread = standard_error_spread(d, reduced.solution);
        solution.standard_errors = standard_errors(reduced.solution, reduced.factor, result, source.shape(), d);
      }
    });
    return solution;
  }
}

}  // namespace tallsketch
