// tallsketch study range: paper F's range study (section V-E). A and b times powers of two, sketched in 16 bits by every
// conversion, with and without column scales, each beside the FP32 sketch of the same seed. One CSV line a case on
// standard output or in a file, and a table for people on standard error.

#include <cmath>
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

constexpr MethodOptions kSketchSolve{.method = SolveMethod::kSketchSolve};

/// All seeds of a case.
struct Outcomes {
  int rank_deficient = 0, non_finite = 0;
  std::vector<std::optional<double>> by_seed;  // residuals; nothing: failed
  std::vector<double> residual, over_fp32;     // of the seeds that were solved; and FP32's, too
  std::vector<double> overflowed, flushed;     // of all seeds
};

/// Sketches that differ in the conversion alone: FP32 first, with which the others are compared.
std::vector<SketchOptions> conversions(const StudyRangeOptions& options, const SketchOptions& common) {
  SketchOptions sketch = common;
  sketch.precision = SketchPrecision::kFp32;
  sketch.rounding = SketchRounding::kNearest;
  sketch.scaling = ScalingChoice::kNone;
  std::vector<SketchOptions> sketches = {sketch};
  for (const SketchPrecision precision : options.precision) {
    for (const SketchRounding rounding : options.rounding) {
      for (const ScalingChoice scaling : options.scaling) {
        sketch.precision = precision;
        sketch.rounding = rounding;
        sketch.scaling = scaling;
        sketches.push_back(sketch);
      }
    }
  }
  return sketches;
}

std::vector<std::vector<SketchOptions>> sketch_groups(const StudyRangeOptions& options) {
  std::vector<std::vector<SketchOptions>> groups;
  SketchOptions common;
  common.check_rows = 0;  // as in the paper, all d rows make x
  common.seed = options.seed;
  for (const double oversample : options.oversample) {
    for (const int zeta : options.zeta) {
      for (const SketchHash hash : options.hash) {
        common.oversample = oversample;
        common.zeta = zeta;
        common.hash = hash;
        groups.push_back(conversions(options, common));
      }
    }
  }
  return groups;
}

const char* const kCsvHeader =
    "backend,device,ranks,commit,system,m,n,data_seed,power,hash,zeta,d,precision,rounding,scaling,first_seed,seeds,"
    "solved,rank_deficient,non_finite,residual_median,residual_least,residual_largest,over_fp32_median,"
    "over_fp32_least,over_fp32_largest,contributions,overflowed_median,flushed_median\n";

const char* const kTableHeader =
    "       system power        hash zeta      d  prec   rounding scaling  solved  no rank  not finite   residual  "
    "over fp32  overflowed    flushed\n";

class RangeStudy {
 public:
  RangeStudy(const StudyRangeOptions& options, const Communicator& comm)
      : options_(options), comm_(comm), watchdog_(options.run.timeout, comm) {
    RunOptions run = options.run;
    run.emulate_half = true;
    backend_ = make_backend(run, comm, timer_);
  }

  void run() {
    const std::vector<std::vector<SketchOptions>> groups = sketch_groups(options_);
    comm_.together([&] {
      check_system_sizes(options_.rows, options_.cols);
      const double held = StudySystem::bytes(options_.rows) + PowerScaledRows::bytes(options_.rows, options_.cols);
      require_study_memory(held, options_.rows, options_.cols, comm_);
      for (const auto& group : groups) {
        for (const SketchOptions& sketch : group) make_sketch_spec(shape(), sketch);  // before anything takes time
      }
      if (comm_.is_root()) output_.emplace(options_.output, options_.run.quiet, kCsvHeader, kTableHeader);
    });
    for (const SystemKind kind : options_.system) {
      std::optional<PowerScaledRows> rows;
      // Bytes/s that rows are made at on a loaded core; every rank makes all.
      constexpr double kSlowest = 1e7;
      watchdog_.enter("make the system", 4 * static_cast<double>(options_.rows * options_.cols) / kSlowest);
      comm_.together([&] {
        // Elements and bucket sums as in the paper, whose n is 256, at the same m / n.
        const double entry_scale = std::sqrt(static_cast<double>(options_.cols) / 256);
        StudySystem system({kind, options_.rows, options_.cols, options_.data_seed, entry_scale});
        rows.emplace(system);
      });
      for (const int power : options_.power) {
        rows->set_power(power);
        StudySolves solves(*rows, options_.run.chunk_rows, *backend_, context_);
        for (const auto& group : groups) run(kind, power, group, solves);
      }
    }
    comm_.together([&] {
      if (comm_.is_root()) output_->finish();
    });
  }

 private:
  ProblemShape shape() const { return {options_.rows, options_.cols, 1, ElementType::kFloat32}; }

  void run(SystemKind kind, int power, const std::vector<SketchOptions>& group, StudySolves& solves) {
    std::vector<std::optional<double>> fp32;  // residuals, by seed
    for (const SketchOptions& sketch : group) {
      const Outcomes outcomes = all_seeds(sketch, fp32, solves);
      if (sketch.precision == SketchPrecision::kFp32) fp32 = outcomes.by_seed;
      comm_.together([&] {
        if (comm_.is_root()) print(kind, power, sketch, outcomes);
      });
    }
  }

  Outcomes all_seeds(const SketchOptions& asked, const std::vector<std::optional<double>>& fp32,
                     StudySolves& solves) const {
    Outcomes outcomes;
    for (int k = 0; k < options_.seeds; ++k) {
      SketchOptions sketch = asked;
      sketch.seed += static_cast<std::uint64_t>(k);
      const JudgedSolve solved = solves.solve(sketch, kSketchSolve);
      outcomes.overflowed.push_back(static_cast<double>(solved.losses.overflowed));
      outcomes.flushed.push_back(static_cast<double>(solved.losses.flushed));
      outcomes.rank_deficient += solved.failure == ErrorKind::kRankDeficient ? 1 : 0;
      outcomes.non_finite += solved.failure == ErrorKind::kNonFinite ? 1 : 0;
      outcomes.by_seed.push_back(solved.failure ? std::nullopt : std::optional(solved.residual));
      if (solved.failure) continue;
      outcomes.residual.push_back(solved.residual);
      const auto seed = static_cast<std::size_t>(k);
      if (seed < fp32.size() && fp32[seed]) outcomes.over_fp32.push_back(solved.residual / *fp32[seed]);
    }
    return outcomes;
  }

  void print(SystemKind kind, int power, const SketchOptions& sketch, const Outcomes& outcomes) {
    const SketchSpec spec = make_sketch_spec(shape(), sketch);
    const double overflowed = spread_of(outcomes.overflowed).median, flushed = spread_of(outcomes.flushed).median;
    const std::string csv = fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.10g},{:.10g}\n", backend_->name(),
        csv_word(backend_->device()), comm_.size(), version_git(), to_word(kind), options_.rows, options_.cols,
        options_.data_seed, power, to_word(spec.hash), spec.zeta, spec.d, to_word(spec.precision),
        to_word(spec.rounding), to_word(sketch.scaling), spec.seed, options_.seeds, outcomes.residual.size(),
        outcomes.rank_deficient, outcomes.non_finite, spread_fields(outcomes.residual),
        spread_fields(outcomes.over_fp32), options_.rows * options_.cols * spec.zeta, overflowed, flushed);
    const std::string table = fmt::format(
        "{:>13} {:>5} {:>11} {:>4} {:>6} {:>5} {:>10} {:>7} {:>7} {:>8} {:>11} {:>10} {:>10} {:>11.3g} {:>10.3g}\n",
        to_word(kind), power, to_word(spec.hash), spec.zeta, spec.d, to_word(spec.precision), to_word(spec.rounding),
        to_word(sketch.scaling), fmt::format("{}/{}", outcomes.residual.size(), options_.seeds),
        outcomes.rank_deficient, outcomes.non_finite, median_cell(outcomes.residual), median_cell(outcomes.over_fp32),
        overflowed, flushed);
    output_->add(csv, table);
  }

  const StudyRangeOptions& options_;
  const Communicator& comm_;
  Watchdog watchdog_;
  PhaseTimer timer_;
  Progress silent_{nullptr};
  std::unique_ptr<Backend> backend_;
  SolveContext context_{comm_, watchdog_, silent_, timer_};
  std::optional<StudyOutput> output_;  // on rank 0
};

}  // namespace

int run_study_range(const StudyRangeOptions& options, const Communicator& comm) {
  RangeStudy(options, comm).run();
  return 0;
}

}  // namespace tallsketch
