// tallsketch study lstsq: paper F's sketch-and-solve (section V-D), and refinement beside it, over d / n, zeta, hash and
// number format. One CSV line a case on standard output or in a file, and a table for people on standard error.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "drivers/study_csv.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/sketch_identity.h"
#include "src/spread.h"
#include "src/study_memory.h"
#include "src/study_solves.h"
#include "src/study_system.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// One line of the study.
struct Case {
  SketchOptions sketch;
  MethodOptions method;
};

/// What a line is compared with: the same solves by FP32 sketches.
struct Reference {
  std::vector<std::optional<double>> residual;  // per seed; nothing: failed
};

/// One figure of every seed that was solved.
struct Figures {
  int converged = 0, escalated = 0;
  std::vector<double> residual, excess, coefficient_error, over_fp32, passes, ms, sketch_ms, factor_ms, refine_ms;
  std::int64_t solved() const { return static_cast<std::int64_t>(residual.size()); }
};

std::vector<SketchPrecision> fp32_first(std::vector<SketchPrecision> precisions) {
  std::stable_sort(precisions.begin(), precisions.end(), [](SketchPrecision a, SketchPrecision b) {
    return a == SketchPrecision::kFp32 && b != SketchPrecision::kFp32;
  });
  return precisions;
}

/// Groups of cases that differ in number format and method alone, FP32 first.
std::vector<std::vector<Case>> case_groups(const StudyLstsqOptions& options) {
  std::vector<std::vector<Case>> groups;
  for (const double ridge : options.ridge) {
    for (const double oversample : options.oversample) {
      for (const int zeta : options.zeta) {
        for (const SketchHash hash : options.hash) {
          std::vector<Case>& group = groups.emplace_back();
          for (const SketchPrecision precision : fp32_first(options.precision)) {
            for (const SolveMethod method : options.method) {
              Case next;
              next.sketch.oversample = oversample;
              next.sketch.zeta = zeta;
              next.sketch.hash = hash;
              next.sketch.precision = precision;
              if (is_half(precision)) next.sketch.rounding = options.rounding;
              next.sketch.scaling = options.scaling;
              next.sketch.check_rows = 0;  // as in the paper, all d rows make x
              next.sketch.seed = options.seed;
              next.method.method = method;
              next.method.ridge = ridge;
              next.method.reduced_solver = options.reduced_solver;
              if (method == SolveMethod::kRefine) next.method.preconditioner = PreconditionerChoice::kSketch;
              group.push_back(next);
            }
          }
        }
      }
    }
  }
  return groups;
}

double distance(const std::vector<double>& x, const std::vector<double>& y) {
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(squares);
}

const char* const kCsvHeader =
    "backend,device,ranks,commit,system,m,n,ridge,data_seed,method,hash,precision,rounding,scaling,zeta,d,first_seed,"
    "seeds,solved,converged,residual_median,residual_least,residual_largest,exact_residual,excess_median,excess_least,"
    "excess_largest,expected_excess,coefficient_error_median,coefficient_error_least,coefficient_error_largest,"
    "over_fp32_excess_median,over_fp32_excess_least,over_fp32_excess_largest,passes_median,ms_median,ms_least,"
    "ms_largest,sketch_ms_median,factor_ms_median,refine_ms_median,escalated\n";

const char* const kTableHeader =
    "       system  ridge       method        hash  prec      d zeta solved  residual     exact    excess (expected)  "
    "coef. error  over fp32  passes       ms\n";

std::string median_text(const std::vector<double>& values) {
  return values.empty() ? "" : fmt::format("{:.6g}", spread_of(values).median);
}

class LstsqStudy {
 public:
  LstsqStudy(const StudyLstsqOptions& options, const Communicator& comm)
      : options_(options), comm_(comm), watchdog_(options.run.timeout, comm) {
    RunOptions run = options.run;
    run.emulate_half = true;
    backend_ = make_backend(run, comm, timer_);
  }

  void run() {
    const std::vector<std::vector<Case>> groups = case_groups(options_);
    comm_.together([&] {
      const ProblemShape shape{options_.rows, options_.cols, 1, ElementType::kFloat32};
      check_system_sizes(shape.m, shape.n);
      require_study_memory(StudySystem::bytes(shape.m), shape.m, shape.n, comm_);
      for (const auto& group : groups) {
        for (const Case& next : group) make_sketch_spec(shape, next.sketch);  // before anything takes time
      }
      if (comm_.is_root()) output_.emplace(options_.output, options_.run.quiet, kCsvHeader, kTableHeader);
    });
    for (const SystemKind kind : options_.system) run(kind, groups);
    comm_.together([&] {
      if (comm_.is_root()) output_->finish();
    });
  }

 private:
  void run(SystemKind kind, const std::vector<std::vector<Case>>& groups) {
    std::optional<StudySystem> system;
    watchdog_.enter("make the system", static_cast<double>(options_.cols * options_.cols) * 1e-7);
    comm_.together([&] { system.emplace(StudySystemOptions{kind, options_.rows, options_.cols, options_.data_seed}); });
    StudySolves solves(*system, options_.run.chunk_rows, *backend_, context_);
    std::map<double, JudgedSolve> exact;  // by ridge
    for (const auto& group : groups) {
      std::map<SolveMethod, Reference> references;
      for (const Case& next : group) {
        const double ridge = next.method.ridge;
        if (!exact.contains(ridge)) exact[ridge] = solves.exact(ridge);
        run(kind, next, exact[ridge], solves, references[next.method.method]);
      }
    }
  }

  /// The first seed is solved once more before it is timed: libraries load, memory is found.
  void run(SystemKind kind, const Case& asked, const JudgedSolve& exact, StudySolves& solves, Reference& reference) {
    Figures figures;
    const bool is_fp32 = asked.sketch.precision == SketchPrecision::kFp32;
    solves.solve(asked.sketch, asked.method);
    for (int k = 0; k < options_.seeds; ++k) {
      Case next = asked;
      next.sketch.seed += static_cast<std::uint64_t>(k);
      const JudgedSolve solved = solves.solve(next.sketch, next.method);
      if (is_fp32) {
        reference.residual.push_back(solved.failure ? std::nullopt : std::optional(solved.residual));
      }
      if (!solved.failure) add(solved, exact, k, reference, figures);
    }
    comm_.together([&] {
      if (comm_.is_root()) print(kind, asked, exact, figures);
    });
  }

  void add(const JudgedSolve& solved, const JudgedSolve& exact, int k, const Reference& reference,
           Figures& figures) const {
    figures.converged += solved.converged ? 1 : 0;
    figures.escalated += solved.escalated ? 1 : 0;
    figures.residual.push_back(solved.residual);
    figures.excess.push_back(solved.objective / exact.objective - 1);
    figures.passes.push_back(solved.passes);
    figures.ms.push_back(1e3 * solved.seconds);
    figures.sketch_ms.push_back(1e3 * solved.sketch_seconds);
    figures.factor_ms.push_back(1e3 * solved.factor_seconds);
    figures.refine_ms.push_back(1e3 * solved.refine_seconds);
    const auto seed = static_cast<std::size_t>(k);
    if (seed < reference.residual.size() && reference.residual[seed]) {
      figures.over_fp32.push_back(solved.residual / *reference.residual[seed] - 1);
    }
    if (!comm_.is_root()) return;
    const std::vector<double> zero(exact.x.size());
    figures.coefficient_error.push_back(distance(solved.x, exact.x) / distance(exact.x, zero));
  }

  void print(SystemKind kind, const Case& c, const JudgedSolve& exact, const Figures& figures) {
    const ProblemShape shape{options_.rows, options_.cols, 1, ElementType::kFloat32};
    const SketchSpec spec = make_sketch_spec(shape, c.sketch);
    // Of sketch-solve without a ridge; refined, x is the exact one.
    std::optional<double> expected;
    if (c.method.method == SolveMethod::kRefine)
      expected = 0;
    else if (c.method.ridge == 0)
      expected = std::sqrt(double(spec.d) / double(spec.d - shape.n)) - 1;
    const std::string csv = fmt::format(
        "{},{},{},{},{},{},{},{:.6g},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.6g},{},{},{},{},{},{},{},{},{},{}\n",
        backend_->name(), csv_word(backend_->device()), comm_.size(), version_git(), to_word(kind), shape.m, shape.n,
        c.method.ridge, options_.data_seed, to_word(c.method.method), to_word(spec.hash), to_word(spec.precision),
        to_word(spec.rounding), to_word(c.sketch.scaling), spec.zeta, spec.d, spec.seed, options_.seeds,
        figures.solved(), figures.converged, spread_fields(figures.residual), exact.residual,
        spread_fields(figures.excess), expected ? fmt::format("{:.6g}", *expected) : "",
        spread_fields(figures.coefficient_error), spread_fields(figures.over_fp32), median_text(figures.passes),
        spread_fields(figures.ms), median_text(figures.sketch_ms), median_text(figures.factor_ms),
        median_text(figures.refine_ms), figures.escalated);
    const std::string table = fmt::format(
        "{:>13} {:>6.3g} {:>12} {:>11} {:>5} {:>6} {:>4} {:>6} {:>9} {:>9.3g} {:>9} {:>10} {:>12} {:>10} {:>7} {:>8}\n",
        to_word(kind), c.method.ridge, to_word(c.method.method), to_word(spec.hash), to_word(spec.precision), spec.d,
        spec.zeta, fmt::format("{}/{}", figures.solved(), options_.seeds), median_cell(figures.residual),
        exact.residual, median_cell(figures.excess), expected ? fmt::format("({:.3g})", *expected) : "",
        median_cell(figures.coefficient_error), median_cell(figures.over_fp32), median_cell(figures.passes),
        median_cell(figures.ms));
    output_->add(csv, table);
  }

  const StudyLstsqOptions& options_;
  const Communicator& comm_;
  Watchdog watchdog_;
  PhaseTimer timer_;
  Progress silent_{nullptr};
  std::unique_ptr<Backend> backend_;
  SolveContext context_{comm_, watchdog_, silent_, timer_};
  std::optional<StudyOutput> output_;  // on rank 0
};

}  // namespace

int run_study_lstsq(const StudyLstsqOptions& options, const Communicator& comm) {
  LstsqStudy(options, comm).run();
  return 0;
}

}  // namespace tallsketch
