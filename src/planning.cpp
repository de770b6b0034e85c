#include "src/planning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/sketch_identity.h"
#include "src/solver.h"

namespace tallsketch {

namespace {

/// Whether auto may put the Gram matrix in the place of the sketch: not where the user shaped the sketch.
bool gram_allowed(const SketchOptions& sketch, const MethodOptions& method) {
  const SketchOptions plain;
  return sketch.oversample == 0 && sketch.sketch_rows == 0 && sketch.precision == plain.precision &&
         sketch.reduce == plain.reduce && sketch.family == plain.family && sketch.hash == plain.hash && !sketch.zeta &&
         !sketch.kappa && !sketch.block_nnz && !sketch.block_rows && !sketch.input_blocks && !sketch.check_rows &&
         (method.reduced_solver == ReducedSolverChoice::kAuto ||
          method.reduced_solver == ReducedSolverChoice::kCholesky);
}

/// Where rows stay beside the least of the sketches; plan_together sees to the one that is made.
Residency likely_residency(const SketchJob& job, int ranks, const PlanLimits& limits) {
  try {
    return make_plan(job.shape, job.spec, ranks, limits).residency;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kMemory) throw;
    return Residency::kFile;
  }
}

/// Rank 0's choice, for all ranks.
Route agreed_route(const SketchOptions& sketch, const MethodOptions& method, const RowSource& source, int ranks,
                   bool rows_kept, Planner& planner, const Communicator& comm) {
  const ProblemShape& shape = source.shape();
  const std::int64_t rows = divide_up(shape.m, ranks);
  RouteLimits limits;
  limits.oversample = sketch.sketch_rows > 0 ? static_cast<double>(sketch.sketch_rows) / static_cast<double>(shape.n)
                                             : sketch.oversample;
  // A sketch as tall as A would save nothing.
  limits.most_oversample = static_cast<double>(shape.m) / static_cast<double>(shape.n);
  limits.gram_allowed = gram_allowed(sketch, method);
  Route route;
  comm.together([&] {
    const SketchJob job{.spec = make_sketch_spec(shape, sketch),
                        .shape = shape,
                        .encoding = source.encoding(),
                        .refine = true,
                        .kept = rows_kept};
    const RowPlace place{likely_residency(job, ranks, planner.plan_limits(job)), rows_kept};
    route = cheapest_route(planner.solve_costs(shape, rows, place), shape.n, method.tolerance, limits);
  });
  // Standard errors from the Gram matrix are exact.
  if (method.standard_errors && limits.gram_allowed) route.compression = Compression::kGram;
  if (method.preconditioner == PreconditionerChoice::kGram) route.compression = Compression::kGram;
  if (method.preconditioner == PreconditionerChoice::kSketch) route.compression = Compression::kSketch;
  comm.broadcast(&route, sizeof route);
  return route;
}

/// Sketch rows, at least, that nobody asked for otherwise: so many that the sums of m zeta / d terms round no worse than the
/// factorisation of d rows, as far as the engine's widest strips hold them.
std::int64_t least_rows(const ProblemShape& shape) {
  return std::min<std::int64_t>(1984, static_cast<std::int64_t>(std::sqrt(static_cast<double>(shape.m))));
}

/// Rows that judge x are taken from the nonzeros of every column of S: where they were more than a sixteenth, a row of A that
/// carries much could lose most of its four. Small sketches are therefore made larger, which costs nothing, unless their
/// size was asked for: then nothing is held back by itself.
void hold_rows_back(const ProblemShape& shape, SketchOptions& sketch) {
  constexpr std::int64_t kCheckRows = 64, kShare = 15;
  SketchOptions held = sketch;
  if (!held.check_rows) held.check_rows = kCheckRows;
  const std::int64_t checks = check_row_count(held), least = std::max(kShare * checks, least_rows(shape));
  const bool free = sketch.oversample == 0 && sketch.sketch_rows == 0;
  const double ratio = free ? 2 : sketch.oversample;
  const double d =
      sketch.sketch_rows > 0 ? static_cast<double>(sketch.sketch_rows) : ratio * static_cast<double>(shape.n);
  const bool large = d >= static_cast<double>(least);
  const bool may_grow = free && checks > 0 && shape.m >= 2 * (least + checks);
  if (!large && may_grow) held.oversample = static_cast<double>(least) / static_cast<double>(shape.n);
  if (sketch.check_rows || large || may_grow) sketch = held;
}

/// Plans the job; a d that nobody asked for is halved, down to 2n, where that makes room for it, or for rows that stay in
/// memory. Local: equal limits give all ranks the same.
/// Errors  kMemory
void plan_within(PlanLimits limits, const Attempt& attempt, const MethodOptions& method, const RowSource& source,
                 int ranks, Planner& planner, SketchJob& job) {
  const bool automatic_d = attempt.automatic_d && attempt.fixed_rows == 0;
  const auto planned = [&](const SketchJob& next) -> std::optional<Plan> {
    try {
      return make_plan(next.shape, next.spec, ranks, limits, next.compression);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kMemory || !automatic_d) throw;
      return std::nullopt;
    }
  };
  constexpr double kLeastRatio = 2;
  const bool may_shrink = automatic_d && job.compression == Compression::kSketch;
  std::optional<SketchJob> best;
  SketchJob candidate;
  for (Attempt next = attempt;;) {
    candidate = unplanned_job(next, method, source);
    candidate.kept = job.kept;
    limits.scratch_bytes = planner.plan_limits(candidate).scratch_bytes;
    const std::optional<Plan> plan = planned(candidate);
    const bool keeps = plan && (plan->residency != Residency::kFile || limits.kept_row_bytes == 0);
    if (plan && (keeps || !best)) {
      candidate.plan = *plan;
      best = candidate;
    }
    const bool last = !may_shrink || next.sketch.oversample <= kLeastRatio;
    if (keeps || last) break;
    next.sketch.oversample = std::max(kLeastRatio, next.sketch.oversample / 2);
  }
  if (!best) make_plan(candidate.shape, candidate.spec, ranks, limits, candidate.compression);  // throws, with figures
  job = *best;
}

/// The least over the ranks, and what it comes from there. Collective.
void agree_on(const Communicator& comm, std::int64_t& bytes, MemoryBound& bound) {
  const std::int64_t least = comm.min(bytes);
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  bound = static_cast<MemoryBound>(comm.min(bytes == least ? static_cast<std::int64_t>(bound) : kNone));
  bytes = least;
}

/// Passes over A and seconds, of a job that is planned. Local.
void predict_plan(const MethodOptions& method, Planner& planner, SketchJob& job) {
  const RowPlace place{job.plan.residency, job.kept};
  const SolveCosts costs = planner.solve_costs(job.shape, job.plan.rank_rows.front().size(), place);
  const bool gram = job.compression == Compression::kGram;
  const double passes = refinement_passes(method, job);
  job.plan.passes = 1 + static_cast<int>(std::ceil(passes));
  job.plan.seconds = costs.read + (gram ? costs.gram : costs.sketch(job.spec.d)) + passes * costs.pass;
}

}  // namespace

double tolerance_for(const MethodOptions& method, ElementType stored) {
  if (method.tolerance > 0) return method.tolerance;
  return stored == ElementType::kFloat64 ? 1e-15 : 1e-12;
}

double refinement_passes(const MethodOptions& method, const SketchJob& job) {
  if (!job.refine) return 0;
  if (job.compression == Compression::kGram) return kGramPasses;
  const double ratio = static_cast<double>(job.spec.d) / static_cast<double>(job.shape.n);
  return expected_passes(tolerance_for(method, job.shape.a_type), ratio);
}

void check_method(const SketchOptions& sketch, const MethodOptions& method, const ProblemShape& shape) {
  const bool refines = method.method == SolveMethod::kRefine;
  require(!refines || sketch.check_rows.value_or(0) == 0, ErrorKind::kUsage,
          "--check-rows judge the x of --method sketch-solve; refine measures its residual by passes: leave them out");
  require(refines || method.preconditioner == PreconditionerChoice::kAuto, ErrorKind::kUsage,
          "--preconditioner belongs to --method refine; sketch-solve has no passes to precondition: leave it out");
  require(
      refines || !method.standard_errors, ErrorKind::kUsage,
      "--standard-errors are those of the least-squares x, which --method sketch-solve does not reach; use --method "
      "refine");
  require(method.ridge == 0 || !method.standard_errors, ErrorKind::kUsage,
          "--standard-errors are not defined for --ridge, whose x is biased on purpose; leave one of them out");
  require(shape.m > shape.n || !method.standard_errors, ErrorKind::kUsage,
          fmt::format("--standard-errors need more rows than columns, and A is {} x {}", shape.m, shape.n));
  require(
      method.preconditioner != PreconditionerChoice::kGram || method.reduced_solver == ReducedSolverChoice::kAuto ||
          method.reduced_solver == ReducedSolverChoice::kCholesky,
      ErrorKind::kUsage,
      fmt::format("--preconditioner gram is factored by Cholesky; --reduced-solver {} needs --preconditioner sketch",
                  to_word(method.reduced_solver)));
}

Attempt attempt_for_file(const SketchOptions& sketch, const ProblemShape& shape) {
  constexpr std::int64_t kEndless = std::int64_t{1} << 60;
  Attempt attempt{sketch, Compression::kSketch};
  hold_rows_back({kEndless, shape.n, shape.r, shape.a_type}, attempt.sketch);
  return attempt;
}

Attempt first_attempt(const SketchOptions& sketch, const MethodOptions& method, const RowSource& source, int ranks,
                      bool rows_kept, Planner& planner, const Communicator& comm, Progress& progress) {
  const ProblemShape& shape = source.shape();
  comm.together([&] { check_method(sketch, method, shape); });
  Attempt attempt{sketch, Compression::kSketch};
  if (method.method == SolveMethod::kSketchSolve) {
    hold_rows_back(shape, attempt.sketch);
    return attempt;
  }
  const Route route = agreed_route(sketch, method, source, ranks, rows_kept, planner, comm);
  attempt.compression = route.compression;
  attempt.automatic_d = sketch.oversample == 0 && sketch.sketch_rows == 0;
  if (sketch.sketch_rows == 0) attempt.sketch.oversample = route.oversample;
  if (attempt.automatic_d) {
    const double least = static_cast<double>(least_rows(shape)) / static_cast<double>(shape.n);
    attempt.sketch.oversample = std::max(route.oversample, least);
  }
  progress.detail(describe(route));
  return attempt;
}

SketchJob unplanned_job(const Attempt& attempt, const MethodOptions& method, const RowSource& source) {
  SketchJob job;
  SketchOptions sketch = attempt.sketch;
  if (attempt.fixed_rows > 0) {
    sketch.oversample = 0;
    sketch.sketch_rows = attempt.fixed_rows - check_row_count(sketch);
  }
  job.spec = make_sketch_spec(source.shape(), sketch);
  job.shape = source.shape();
  job.encoding = source.encoding();
  job.source_bytes = source.buffer_bytes();
  job.sketch_copies = attempt.sketch_copies;
  job.from_file = attempt.from_file;
  job.scaling = attempt.sketch.scaling;
  job.reduce = attempt.sketch.reduce;
  job.refine = method.method == SolveMethod::kRefine;
  job.compression = attempt.compression;
  job.held_back = held_back_rows(job.spec, attempt.sketch);
  return job;
}

std::string describe_job(const SketchJob& job) {
  if (job.compression == Compression::kGram) return "preconditioner: FP64 Gram matrix of A";
  const std::string checks =
      job.held_back.count == 0 ? "" : fmt::format(" ({} of these rows to judge x)", job.held_back.count);
  return fmt::format("sketch: {}{}, {}, seed {}", describe(job.spec), checks, to_word(job.spec.precision),
                     job.spec.seed);
}

PlanLimits agreed_limits(const SketchJob& job, std::uint64_t chunk_rows, Planner& planner, const Communicator& comm) {
  PlanLimits limits;
  comm.together([&] { limits = planner.plan_limits(job); });
  agree_on(comm, limits.memory_bytes, limits.memory_bound);
  agree_on(comm, limits.host_memory_bytes, limits.host_memory_bound);
  limits.chunk_rows = static_cast<std::int64_t>(chunk_rows);
  return limits;
}

SketchJob planned_job(const Attempt& attempt, const MethodOptions& method, std::uint64_t chunk_rows,
                      const SketchJob* kept_job, const RowSource& source, int ranks, Planner& planner,
                      const Communicator& comm) {
  SketchJob job;
  comm.together([&] { job = unplanned_job(attempt, method, source); });
  const auto plan = [&](bool kept) {
    job.kept = kept;
    PlanLimits limits = agreed_limits(job, chunk_rows, planner, comm);
    if (kept) limits.rank_rows = kept_job->plan.rank_rows;  // a batch cut by their borders costs its map twice, no more
    // Rows that are kept in pieces pass the device piece by piece.
    const bool in_pieces = kept && kept_job->plan.residency == Residency::kHost;
    if (in_pieces && limits.kept_residency == Residency::kDevice) limits.chunk_rows = kept_job->plan.chunk_rows;
    comm.together([&] {
      plan_within(limits, attempt, method, source, ranks, planner, job);
      predict_plan(method, planner, job);
    });
  };
  if (kept_job == nullptr) {
    plan(false);
    return job;
  }
  bool has_room = true;
  try {
    plan(true);
  } catch (const Error& e) {  // the same on all ranks
    if (e.kind() != ErrorKind::kMemory) throw;
    has_room = false;
  }
  if (!has_room || job.plan.residency != kept_job->plan.residency) plan(false);
  return job;
}

SketchJob plan_together(const Attempt& attempt, const MethodOptions& method, std::uint64_t chunk_rows,
                        const SketchJob* kept_job, const RowSource& source, Backend& backend,
                        const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  const ProblemShape& shape = source.shape();
  report.shape = shape;
  report.source = source.info();
  SketchJob job = planned_job(attempt, method, chunk_rows, kept_job, source, comm.size(), backend, comm);
  job.rows = job.plan.rank_rows[static_cast<std::size_t>(comm.rank())];
  report.sketch = job.spec;
  report.reduce = to_word(job.reduce);
  if (is_half(job.spec.precision)) report.scaling = to_word(job.scaling);
  if (job.compression == Compression::kSketch && shape.m < 2 * job.spec.d) {
    const std::string warning = fmt::format(
        "m = {} is below 2 d = {}: sketching saves nothing here; an exact solver (numpy.linalg.lstsq, LAPACK "
        "gels) is as fast and better",
        shape.m, 2 * job.spec.d);
    if (std::count(report.warnings.begin(), report.warnings.end(), warning) == 0) report.warnings.push_back(warning);
  }
  report.plan = job.plan;
  context.progress.line(describe_job(job));
  context.progress.line("plan: " + describe(job.plan));
  return job;
}

double factor_seconds(const SketchJob& job) {
  // A tenth of what one loaded core of the slowest machine tried does.
  constexpr double kSlowestFactor = 1e9;  // operations/s
  constexpr double kSpectral = 30;        // times n^3, by singular values
  const auto cols = static_cast<double>(job.shape.n + job.shape.r);
  return (2 * static_cast<double>(job.spec.d) * cols * cols + kSpectral * cols * cols * cols) / kSlowestFactor;
}

}  // namespace tallsketch
