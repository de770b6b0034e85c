// tallsketch bench solve: whole solves of made-up problems whose rows lie in memory, by several routes, each beside the
// read-only pass over A of the same run, and judged by one referee. One JSON line a run on standard output; a table on
// standard error. On any number of ranks; the rival QR on one.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/attempt.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/referee.h"
#include "src/sketch_pass.h"
#include "src/solver.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// A source that has shape and names; its rows are made where they are kept.
class MadeUpSource final : public RowSource {
 public:
  explicit MadeUpSource(const ProblemShape& shape) : shape_(shape) {
    info_.dtype = to_word(shape.a_type);
    info_.layout = "made up in memory";
    info_.io_mode = "none";
  }
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange, void*, double*) override {
    throw Error(ErrorKind::kMemory, "the made-up rows do not stay in memory beside this sketch; use a smaller --bytes");
  }

 private:
  ProblemShape shape_;
  SourceInfo info_;
};

struct SolveCase {
  ProblemShape shape;
  MadeUpProblem problem;
};

/// Seconds of the best of all repeats, the busiest rank's; of reduce the rank's that came last to it, because the others' wait
/// for it is in its own sketch already.
struct RouteTiming {
  double sketch = 0, reduce = 0, factor = 0, refine = 0, wall = 0;
  double backward_error = 0;  // by the referee
  Report report;
  double total() const { return sketch + reduce + factor + refine; }
};

std::vector<SolveCase> cases_of(const BenchSolveOptions& options, int ranks) {
  std::vector<SolveCase> cases;
  for (const ElementType type : options.dtype) {
    for (const std::int64_t n : options.cols) {
      for (const std::int64_t r : options.rhs) {
        for (const double cond : options.cond) {
          for (const double residual : options.residual) {
            const std::int64_t m = static_cast<std::int64_t>(options.bytes) / (n * element_size(type)) * ranks;
            cases.push_back({{std::max(m, n), n, r, type}, {cond, residual, options.seed}});
          }
        }
      }
    }
  }
  return cases;
}

MethodOptions method_of(BenchRoute route, double tolerance) {
  MethodOptions method;
  method.tolerance = tolerance;
  switch (route) {
    case BenchRoute::kRefine:
    case BenchRoute::kQr: break;
    case BenchRoute::kRefineSketch: method.preconditioner = PreconditionerChoice::kSketch; break;
    case BenchRoute::kRefineGram: method.preconditioner = PreconditionerChoice::kGram; break;
    case BenchRoute::kNormalEquations:  // the start of refine-gram: one judgement, which is not counted, and the end
      method.preconditioner = PreconditionerChoice::kGram;
      method.max_passes = 1;
      break;
    case BenchRoute::kSketchQr:
      method.method = SolveMethod::kSketchSolve;
      method.reduced_solver = ReducedSolverChoice::kQr;
      break;
    case BenchRoute::kSketchCholesky:
      method.method = SolveMethod::kSketchSolve;
      method.reduced_solver = ReducedSolverChoice::kCholesky;
      break;
  }
  return method;
}

/// The largest of all ranks. Collective.
double largest(double value, const Communicator& comm) {
  comm.max(&value, 1);
  return value;
}

/// The smallest of all ranks. Collective.
double smallest(double value, const Communicator& comm) { return -largest(-value, comm); }

/// What the timer gained in a phase on this rank.
double gained(Phase phase, const PhaseTimer& timer, const PhaseTimer& before) {
  return timer.seconds(phase) - before.seconds(phase);
}

class SolveBench {
 public:
  SolveBench(const BenchSolveOptions& options, const Communicator& comm)
      : options_(options),
        comm_(comm),
        watchdog_(options.run.timeout, comm),
        backend_(make_backend(options.run, comm, timer_)) {}

  void run() {
    for (const SolveCase& next : cases_of(options_, comm_.size())) run(next);
  }

 private:
  void run(const SolveCase& next) {
    MadeUpSource source(next.shape);
    const KeptRows rows = make_rows(next, source);
    const Referee referee(rows, source, *backend_, context_);
    for (const BenchRoute route : options_.route) {
      // Just before, because clocks move.
      double floor = 0;
      comm_.together([&] { floor = backend_->read_floor(std::max(5, options_.repeats)); });
      floor = largest(floor, comm_);
      try {
        const RouteTiming timing =
            route == BenchRoute::kQr ? time_qr(referee) : time_route(route, rows, source, referee);
        if (comm_.is_root()) print(next, route, floor, timing);
      } catch (const Error& e) {
        if (!e.agreed() || e.kind() != ErrorKind::kRankDeficient) throw;
        if (comm_.is_root()) std::fputs(fmt::format("{}: {}\n", to_word(route), e.what()).c_str(), stderr);
      }
    }
  }

  /// Rows in the memory of all ranks, for passes.
  KeptRows make_rows(const SolveCase& next, RowSource& source) {
    const double bytes = static_cast<double>(next.shape.m * next.shape.a_row_bytes()) / comm_.size();
    constexpr double kSlowest = 1e6;  // bytes/s on one loaded core
    Report scratch;
    Attempt attempt;
    attempt.compression = Compression::kGram;  // the least memory
    KeptRows rows{plan_together(attempt, {}, options_.run.chunk_rows, nullptr, source, *backend_, context_, scratch),
                  {}};
    rows.b_norms.assign(static_cast<std::size_t>(next.shape.r), 0.0);
    watchdog_.enter("make rows up", bytes / kSlowest);
    comm_.together([&] {
      backend_->begin(rows.job);
      backend_->make_up(next.problem, rows.b_norms);
    });
    comm_.sum(rows.b_norms.data(), next.shape.r);
    for (double& norm : rows.b_norms) norm = std::sqrt(norm);
    return rows;
  }

  RouteTiming time_route(BenchRoute route, const KeptRows& rows, RowSource& source, const Referee& referee) {
    RouteTiming best;
    Solution solution;
    for (int repeat = 0; repeat < options_.repeats + 1; ++repeat) {  // the first warms libraries up
      RouteTiming timing;
      SketchOptions sketch;
      sketch.oversample = options_.oversample;
      const PhaseTimer before = timer_;
      timer_.time(Phase::kTotal, [&] {
        solution = solve(sketch, method_of(route, options_.tolerance), options_.run.chunk_rows, source, *backend_,
                         context_, timing.report, &rows);
      });
      const auto busiest = [&](Phase phase) { return largest(gained(phase, timer_, before), comm_); };
      timing.sketch = busiest(Phase::kSketch);
      timing.reduce = smallest(gained(Phase::kReduce, timer_, before), comm_);
      timing.factor = busiest(Phase::kFactor);
      timing.refine = route == BenchRoute::kNormalEquations ? 0 : busiest(Phase::kRefine);
      timing.wall = busiest(Phase::kTotal);
      if (repeat == 1 || (repeat > 1 && timing.total() < best.total())) best = timing;
    }
    best.backward_error = referee.judge(solution.x, *backend_);
    return best;
  }

  RouteTiming time_qr(const Referee& referee) {
    RouteTiming timing;
    std::vector<double> x;
    comm_.together([&] {
      require(
          comm_.size() == 1, ErrorKind::kUsage,
          fmt::format("--route qr factors all rows on one rank, but {} run; leave it out, or start one", comm_.size()));
      x = backend_->solve_by_qr(timing.factor);
    });
    timing.wall = timing.factor;
    timing.backward_error = referee.judge(x, *backend_);
    return timing;
  }

  void print(const SolveCase& next, BenchRoute route, double floor, const RouteTiming& timing) {
    const SolverOutcome& s = timing.report.solver;
    const bool whole = route == BenchRoute::kQr;
    nlohmann::ordered_json line = {{"bench", "solve"},
                                   {"backend", backend_->name()},
                                   {"device", backend_->device()},
                                   {"ranks", comm_.size()},
                                   {"commit", version_git()},
                                   {"m", next.shape.m},
                                   {"n", next.shape.n},
                                   {"r", next.shape.r},
                                   {"dtype", to_word(next.shape.a_type)},
                                   {"cond", next.problem.cond},
                                   {"residual", next.problem.residual},
                                   {"route", to_word(route)},
                                   {"floor_ms", 1e3 * floor},
                                   {"sketch_floors", timing.sketch / floor},
                                   {"reduce_floors", timing.reduce / floor},
                                   {"factor_floors", timing.factor / floor},
                                   {"refine_floors", timing.refine / floor},
                                   {"floors", (whole ? timing.factor : timing.total()) / floor},
                                   {"wall_ms", 1e3 * timing.wall},
                                   {"backward_error", timing.backward_error}};
    if (!whole) {
      line["preconditioner"] = s.preconditioner;
      line["reduced_solver"] = s.reduced_solver;
      line["d"] = timing.report.sketch->d;
      line["precision"] = to_word(timing.report.sketch->precision);
      line["passes"] = s.passes;
      line["converged"] = s.converged;
      line["certificate"] = s.backward_error ? nlohmann::ordered_json(*s.backward_error) : nullptr;
    }
    std::fputs((line.dump() + "\n").c_str(), stdout);
    std::fflush(stdout);
    if (options_.run.quiet) return;
    constexpr const char* kRow =
        "{:>9} {:>5} {:>2} {:>7} {:>7} {:>16} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9}{}\n";
    if (!header_) {
      std::fputs(fmt::format(kRow, "m", "n", "r", "dtype", "cond", "route", "d", "passes", "sketch", "reduce", "factor",
                             "refine", "floors", "backward", "   on " + backend_->device())
                     .c_str(),
                 stderr);
    }
    header_ = true;
    const auto floors = [&](double seconds) { return fmt::format("{:.2f}", seconds / floor); };
    std::fputs(fmt::format(kRow, next.shape.m, next.shape.n, next.shape.r, to_word(next.shape.a_type),
                           fmt::format("{:.0e}", next.problem.cond), to_word(route),
                           whole || s.preconditioner == "gram" ? "" : fmt::format("{}", timing.report.sketch->d),
                           whole ? "" : fmt::format("{}", s.passes), floors(timing.sketch), floors(timing.reduce),
                           floors(timing.factor), floors(timing.refine), floors(whole ? timing.factor : timing.total()),
                           fmt::format("{:.1e}", timing.backward_error), "")
                   .c_str(),
               stderr);
  }

  const BenchSolveOptions& options_;
  const Communicator& comm_;
  Watchdog watchdog_;
  PhaseTimer timer_;
  Progress silent_{nullptr};
  std::unique_ptr<Backend> backend_;
  SolveContext context_{comm_, watchdog_, silent_, timer_};
  bool header_ = false;
};

}  // namespace

int run_bench_solve(const BenchSolveOptions& options, const Communicator& comm) {
  SolveBench(options, comm).run();
  return 0;
}

}  // namespace tallsketch
