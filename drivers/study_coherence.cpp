// tallsketch study coherence: paper B's tasks over kinds of data and sketches, quality against time, and what its theory asks
// for: the coherences of BlockPerm's blocks. One CSV line a case and task, a table for people on standard error.

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "drivers/study_csv.h"
#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/pareto.h"
#include "src/sketch_grid.h"
#include "src/spread.h"
#include "src/study_memory.h"
#include "src/synthetic_source.h"
#include "src/task_study.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

bool is_gaussian(const SketchCase& sketch) { return sketch.kernel == BenchKernel::kGaussian; }

StudyFamily family_of(const SketchCase& sketch) {
  if (is_gaussian(sketch)) return StudyFamily::kGaussian;
  if (sketch.family == BenchFamily::kFlashBlockRow) return StudyFamily::kFlashBlockRow;
  return sketch.family == BenchFamily::kBlockPerm ? StudyFamily::kBlockPerm : StudyFamily::kSparseStack;
}

/// The lists of `bench sketch` that make the same sketches, of one family.
BenchSketchOptions grid_of(const StudyCoherenceOptions& options, BenchFamily family) {
  BenchSketchOptions grid;
  grid.may_be_short = true;
  grid.rows = {options.rows};
  grid.cols = {options.cols};
  grid.oversample = options.oversample;
  grid.sketch_rows = options.sketch_rows;
  grid.family = {family};
  grid.hash = options.hash;
  grid.zeta = options.zeta;
  grid.kappa = options.kappa;
  grid.block_nnz = options.block_nnz;
  grid.block_rows = options.block_rows;
  grid.input_blocks = options.input_blocks;
  grid.kernel = options.kernel;
  if (family == BenchFamily::kFlashBlockRow) grid.kernel = {BenchKernel::kAuto};
  return grid;
}

/// Dense sketches of the d that were asked for.
std::vector<SketchCase> gaussian_cases(const StudyCoherenceOptions& options) {
  std::vector<std::int64_t> rows = options.sketch_rows;
  for (const double ratio : options.oversample) {
    if (options.sketch_rows.empty()) {
      rows.push_back(static_cast<std::int64_t>(std::ceil(ratio * static_cast<double>(options.cols))));
    }
  }
  std::vector<SketchCase> cases;
  for (const std::int64_t d : rows) {
    SketchCase next;
    next.shape = {options.rows, options.cols, 0, ElementType::kFloat32};
    next.kernel = BenchKernel::kGaussian;
    next.spec.d = d;
    next.spec.zeta = 1;  // of a CountSketch, so that the spec is a legal one: who times a dense S looks at d alone
    next.spec.batch_rows = batch_rows_for(next.spec);
    cases.push_back(next);
  }
  return cases;
}

/// skip  is told of every combination that does not exist
std::vector<SketchCase> all_sketches(const StudyCoherenceOptions& options,
                                     const std::function<void(const std::string&)>& skip) {
  std::vector<SketchCase> all;
  for (const StudyFamily family : options.family) {
    const BenchFamily timed = family == StudyFamily::kBlockPerm       ? BenchFamily::kBlockPerm
                              : family == StudyFamily::kFlashBlockRow ? BenchFamily::kFlashBlockRow
                                                                      : BenchFamily::kSparseStack;
    const std::vector<SketchCase> cases =
        family == StudyFamily::kGaussian ? gaussian_cases(options) : make_sketch_grid(grid_of(options, timed), skip);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  for (SketchCase& sketch : all) sketch.spec.seed = options.seed;
  return all;
}

/// A sketch with its time, which no data change.
struct TimedSketch {
  SketchCase sketch;
  std::optional<SketchTiming> timing;  // seconds, of the slowest rank; nothing where this backend does not time it
};

/// Every rank times rows of its own, its share of m. Collective. Errors: kUsage where the backend does not do the case
SketchTiming time_on_all(const SketchCase& sketch, int repeats, Backend& backend, const Communicator& comm) {
  SketchCase share = sketch;
  share.shape.m = divide_up(sketch.shape.m, comm.size());
  SketchTiming timing;
  comm.together([&] { timing = backend.time_sketch(share, repeats); });
  comm.max(&timing.floor, 1);
  comm.max(&timing.complete, 1);
  if (timing.map) comm.max(&*timing.map, 1);
  return timing;
}

/// The errors of one sketch at one task.
struct TaskLine {
  std::size_t sketch = 0;  // of the timed ones
  StudyTask task = StudyTask::kGram;
  std::vector<double> errors;  // of the seeds that did it
  double unsketched = 0;       // of the task itself
  bool on_front = false;       // of the sketches that do it with every seed, none beats it
};

double unsketched_error(const TaskErrors& exact, StudyTask task) {
  if (task == StudyTask::kRidge) return exact.ridge.value();
  return task == StudyTask::kSolve ? exact.solve.value() : 0;
}

const std::vector<double>& errors_of(const TaskResult& result, StudyTask task) {
  switch (task) {
    case StudyTask::kOse: return result.ose;
    case StudyTask::kRidge: return result.ridge;
    case StudyTask::kSolve: return result.solve;
    default: return result.gram;
  }
}

/// Over all sketches of one kind of data, task by task. A sketch that fails some seeds is on no front: the median of the
/// others says nothing of it.
void find_fronts(const std::vector<TimedSketch>& sketches, int seeds, std::vector<TaskLine>& lines) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  for (const auto& [word, task] : words_of(StudyTask{})) {
    std::vector<CostAndError> points;
    for (const TaskLine& line : lines) {
      const auto& timing = sketches[line.sketch].timing;
      const bool counts = line.task == task && timing && std::ssize(line.errors) == seeds;
      points.push_back(counts ? CostAndError{timing->complete, spread_of(line.errors).median}
                              : CostAndError{kNever, kNever});
    }
    const std::vector<bool> front = pareto_front(points);
    for (std::size_t k = 0; k < lines.size(); ++k) lines[k].on_front = lines[k].on_front || front[k];
  }
}

const char* const kCsvHeader =
    "backend,commit,kind,m,n,rank,noise,ridge,family,hash,kernel,d,zeta,kappa,block_nnz,block_rows,input_blocks,"
    "first_seed,seeds,task,failures,error_median,error_least,error_largest,error_unsketched,time_ms,map_ms,floor_ms,"
    "pareto,"
    "block_coherence,neighbourhood_coherence_median,neighbourhood_coherence_least,neighbourhood_coherence_largest\n";

/// "blockperm,permuted,strip,256,4,2,2,128,interleaved": empty where S has no such parameter.
std::string sketch_fields(const TimedSketch& timed) {
  const SketchSpec& spec = timed.sketch.spec;
  const StudyFamily family = family_of(timed.sketch);
  const char* const kernel = timed.timing ? timed.timing->kernel : "";
  switch (family) {
    case StudyFamily::kGaussian: return fmt::format("{},,{},{},,,,,", to_word(family), kernel, spec.d);
    case StudyFamily::kFlashBlockRow:
      return fmt::format("{},,{},{},,{},{},{},", to_word(family), kernel, spec.d, spec.kappa, spec.block_nnz,
                         spec.block_rows);
    case StudyFamily::kBlockPerm:
      return fmt::format("{},{},{},{},{},{},{},{},{}", to_word(family), to_word(spec.hash), kernel, spec.d, spec.zeta,
                         spec.kappa, spec.block_nnz, spec.block_rows, to_word(spec.input_blocks));
    case StudyFamily::kSparseStack: break;
  }
  return fmt::format("{},{},{},{},{},,,,", to_word(family), to_word(spec.hash), kernel, spec.d, spec.zeta);
}

std::string time_fields(const std::optional<SketchTiming>& timing) {
  if (!timing) return ",,";
  return fmt::format("{:.6g},{},{:.6g}", 1e3 * timing->complete,
                     timing->map ? fmt::format("{:.6g}", 1e3 * *timing->map) : "", 1e3 * timing->floor);
}

/// What all lines of one kind of data begin with.
std::string problem_fields(const StudyCoherenceOptions& options, SyntheticKind kind, const char* backend) {
  return fmt::format("{},{},{},{},{},{},{},{}", backend, version_git(), to_word(kind), options.rows, options.cols,
                     kind == SyntheticKind::kLowRank ? std::to_string(options.rank) : "", options.noise, options.ridge);
}

std::string csv_line(const std::string& problem, const StudyCoherenceOptions& options, const TimedSketch& timed,
                     const TaskLine& line, const TaskResult& result) {
  const std::string block = result.block_coherence ? fmt::format("{:.6g}", *result.block_coherence) : "";
  return fmt::format("{},{},{},{},{},{},{},{:.6g},{},{},{},{}\n", problem, sketch_fields(timed), options.seed,
                     options.seeds, to_word(line.task), options.seeds - static_cast<int>(line.errors.size()),
                     spread_fields(line.errors), line.unsketched, time_fields(timed.timing),
                     line.on_front ? "yes" : "no", block, spread_fields(result.neighbourhood_coherence));
}

const char* const kTableHeader =
    "       kind      sketch     d  nonzeros input blocks  kernel   task  error median [least, largest] failed  "
    "time ms  floors front  mu_blk  mu_nbr\n";

/// "4", "2x2/128": kappa x s / B_r.
std::string nonzeros(const SketchCase& sketch) {
  const SketchSpec& spec = sketch.spec;
  if (is_gaussian(sketch)) return "dense";
  if (sketch.family == BenchFamily::kSparseStack) return std::to_string(spec.zeta);
  return fmt::format("{}x{}/{}", spec.kappa, spec.block_nnz, spec.block_rows);
}

std::string table_line(SyntheticKind kind, const TimedSketch& timed, const TaskLine& line, const TaskResult& result) {
  const bool blocks = family_of(timed.sketch) == StudyFamily::kBlockPerm;
  std::string error = "-", time = "-", floors = "-", coherences;
  if (!line.errors.empty()) {
    const Spread spread = spread_of(line.errors);
    error = fmt::format("{:.4g} [{:.4g}, {:.4g}]", spread.median, spread.least, spread.largest);
  }
  if (timed.timing) {
    time = fmt::format("{:.3f}", 1e3 * timed.timing->complete);
    floors = fmt::format("{:.2f}", timed.timing->complete / timed.timing->floor);
  }
  if (result.block_coherence) {
    coherences =
        fmt::format(" {:>7.2f} {:>7.2f}", *result.block_coherence, spread_of(result.neighbourhood_coherence).median);
  }
  return fmt::format("{:>11} {:>13} {:>5} {:>9} {:>12} {:>7} {:>6} {:>30} {:>6} {:>8} {:>7} {:>5}{}\n", to_word(kind),
                     to_word(family_of(timed.sketch)), timed.sketch.spec.d, nonzeros(timed.sketch),
                     blocks ? to_word(timed.sketch.spec.input_blocks) : "-", timed.timing ? timed.timing->kernel : "-",
                     to_word(line.task), error, result.seeds - static_cast<int>(line.errors.size()), time, floors,
                     line.on_front ? "yes" : "", coherences);
}

/// Whether S is the same, however it is applied.
bool same_sketch(const SketchCase& a, const SketchCase& b) {
  return family_of(a) == family_of(b) && a.spec.d == b.spec.d && a.spec.hash == b.spec.hash &&
         a.spec.zeta == b.spec.zeta && a.spec.kappa == b.spec.kappa && a.spec.block_nnz == b.spec.block_nnz &&
         a.spec.block_rows == b.spec.block_rows && a.spec.input_blocks == b.spec.input_blocks;
}

/// All sketches that exist, timed; what a backend does not do is told and left out, but for FlashBlockRow, which has errors
/// without a time. Collective.
std::vector<TimedSketch> time_all(const StudyCoherenceOptions& options, Backend& backend, Watchdog& watchdog,
                                  const Communicator& comm) {
  std::string first_skipped;
  const auto skip = [&](const std::string& line) {
    if (first_skipped.empty()) first_skipped = line;
    if (comm.is_root() && !options.run.quiet) std::fputs(("skipped: " + line + "\n").c_str(), stderr);
  };
  std::vector<TimedSketch> timed;
  for (const SketchCase& sketch : all_sketches(options, skip)) {
    constexpr double kSlowest = 0.05e9;  // bytes/s of a repeat
    const double dense = is_gaussian(sketch) ? static_cast<double>(sketch.spec.d) : 1.0;
    watchdog.enter("time sketches",
                   static_cast<double>(sketch.shape.bytes_of_a()) * dense * (options.repeats + 2) / kSlowest);
    try {
      timed.push_back({sketch, time_on_all(sketch, options.repeats, backend, comm)});
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kUsage) throw;
      if (sketch.family == BenchFamily::kFlashBlockRow) {
        timed.push_back({sketch, std::nullopt});
      } else {
        skip(describe(sketch) + ": " + e.what());
      }
    }
  }
  comm.together([&] { require(!timed.empty(), ErrorKind::kUsage, "nothing to study: " + first_skipped); });
  return timed;
}

SyntheticSource problem_of(const StudyCoherenceOptions& options, SyntheticKind kind) {
  SyntheticProblem problem;
  problem.kind = kind;
  problem.m = options.rows;
  problem.n = options.cols;
  problem.rank = options.rank;
  problem.noise = options.noise;
  problem.seed = options.data_seed;
  return SyntheticSource(problem);
}

}  // namespace

int run_study_coherence(const StudyCoherenceOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, comm);
  PhaseTimer timer;
  watchdog.enter("devices");
  const auto backend = make_backend(options.run, comm, timer);
  std::optional<StudyOutput> output;  // on rank 0
  comm.together([&] {
    for (const SyntheticKind kind : options.kind) problem_of(options, kind);  // errors before anything takes time
    require_study_memory(TaskRows::bytes(options.rows, options.cols), options.rows, options.cols, comm);
    if (comm.is_root()) output.emplace(options.output, options.run.quiet, kCsvHeader, kTableHeader);
  });
  const std::vector<TimedSketch> sketches = time_all(options, *backend, watchdog, comm);
  constexpr double kSlowest = 1e9;  // operations/s of LAPACK on a loaded core
  const auto m = static_cast<double>(options.rows), n = static_cast<double>(options.cols);
  const TaskStudyOptions study{options.seeds, options.ridge, !options.no_coherence,
                               static_cast<std::int64_t>(options.run.chunk_rows)};
  for (const SyntheticKind kind : options.kind) {
    watchdog.enter("make the problem", 8 * m * n * n / kSlowest);
    std::optional<TaskRows> rows;
    comm.together([&] {
      SyntheticSource source = problem_of(options, kind);
      rows.emplace(source);
    });
    std::vector<TaskResult> results;
    for (std::size_t k = 0; k < sketches.size(); ++k) {
      const SketchCase& sketch = sketches[k].sketch;
      const auto d = static_cast<double>(sketch.spec.d);
      watchdog.enter("study coherence", options.seeds *
                                            (20 * (d + n) * n * n + 10 * m * n * sketch.spec.zeta +
                                             (study.coherence ? d * n * n * n : 0)) /
                                            kSlowest);
      if (k > 0 && same_sketch(sketches[k - 1].sketch, sketch)) {
        results.push_back(results.back());
      } else {
        results.push_back(study_tasks(sketch, study, *rows, *backend, comm));
      }
    }
    comm.together([&] {
      if (!comm.is_root()) return;
      const TaskErrors exact = exact_errors(rows->triangle(), rows->n(), options.ridge);
      std::vector<TaskLine> lines;
      for (std::size_t k = 0; k < sketches.size(); ++k) {
        for (const StudyTask task : options.task) {
          lines.push_back({k, task, errors_of(results[k], task), unsketched_error(exact, task), false});
        }
      }
      find_fronts(sketches, options.seeds, lines);
      const std::string problem = problem_fields(options, kind, backend->name());
      for (const TaskLine& line : lines) {
        output->add(csv_line(problem, options, sketches[line.sketch], line, results[line.sketch]),
                    table_line(kind, sketches[line.sketch], line, results[line.sketch]));
      }
    });
  }
  comm.together([&] {
    if (comm.is_root()) output->finish();
  });
  return 0;
}

}  // namespace tallsketch
