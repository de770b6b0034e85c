#include "drivers/reported_run.h"

#include <cstdio>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "src/atomic_file.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/launch.h"
#include "src/text.h"
#include "src/version.h"

namespace tallsketch {

namespace {

void write_report(const std::string& path, const Report& report) {
  const std::string json = to_json(report);
  if (path != "-") {
    write_file_atomically(path, std::as_bytes(std::span(json)));
    return;
  }
  const bool written = std::fwrite(json.data(), 1, json.size(), stdout) == json.size() && std::fflush(stdout) == 0;
  require(written, ErrorKind::kOutput, "cannot write the report to standard output");
}

void record_failure(Report& report, const Error& failure) {
  report.status = status_word(failure.kind());
  report.exit_code = failure.exit_code();
  report.message = failure.what();
}

bool leaves_report(const Error& failure) {
  return failure.kind() != ErrorKind::kInternal && failure.kind() != ErrorKind::kUsage;
}

/// Collective: what computes, and where every rank runs.
void tell_places(const Communicator& comm, const Backend& backend, bool all, Progress& progress) {
  std::string libraries;
  for (const auto& list : {common_libraries(), backend.libraries()}) {
    for (const Library& library : list) libraries += fmt::format(", {} {}", library.name, library.version);
  }
  progress.line(fmt::format("backend: {}{}", backend.name(), libraries));
  constexpr std::size_t kMostLines = 16;
  const auto places = gather_places(comm, backend.place());
  for (const std::string& line : node_lines(places, all ? places.size() : kMostLines)) progress.line(line);
}

/// "open 0.010, read 0.020, ...": the phases that took time, on this rank.
std::string times_text(const PhaseTimer& timer) {
  std::string times;
  for (const Phase phase : {Phase::kOpen, Phase::kRead, Phase::kUpload, Phase::kSketch, Phase::kReduce, Phase::kFactor,
                            Phase::kRefine, Phase::kWrite, Phase::kTotal}) {
    if ((phase == Phase::kUpload || phase == Phase::kRefine || phase == Phase::kFactor) && timer.seconds(phase) == 0)
      continue;
    times += fmt::format("{}{} {:.3f}", times.empty() ? "" : ", ", kPhaseNames[static_cast<std::size_t>(phase)],
                         timer.seconds(phase));
  }
  return times;
}

/// The log's last lines, after those on the result.
void tell_times_and_warnings(const Report& report, const PhaseTimer& timer, Progress& progress) {
  progress.line("time on rank 0, seconds: " + times_text(timer));
  for (const std::string& warning : report.warnings) progress.warning(warning);
  for (const std::string& warning : report.source.warnings) progress.warning(warning);
}

}  // namespace

ReportedRun::ReportedRun(const Communicator& communicator, const RunOptions& run, const std::string& report_path,
                         const std::string& command_line)
    : comm(communicator),
      progress(comm.is_root() && !run.quiet ? (report_path == "-" ? stderr : stdout) : nullptr, run.verbose,
               comm.size()),
      watchdog(run.timeout, comm, &progress),
      run_(run),
      report_path_(report_path) {
  report.command_line = command_line;
  report.size = comm.size();
  report.nodes = comm.nodes();
}

/// For what only this rank knows: rank 0 still leaves a report, then the job ends.
void ReportedRun::abort_with_report(const Error& error) {
  ignore_ending_signals();
  record_failure(report, error);
  try {
    if (comm.is_root() && leaves_report(error) && !report_path_.empty()) write_report(report_path_, report);
  } catch (const Error&) {  // the first failure is the one to tell
  }
  comm.abort_alone(error);
}

void ReportedRun::attempt(const std::function<void()>& work) {
  timer.time(Phase::kTotal, [&] {
    try {
      progress.line(fmt::format("tallsketch {} ({}), {} rank{} on {} node{}", version_number(), version_git(),
                                comm.size(), plural(comm.size()), comm.nodes(), plural(comm.nodes())));
      if (!run_.ignore_launcher) {
        comm.together([&] { check_launcher(comm.size(), process_environment()); });
      }
      work();
    } catch (const Error& e) {
      failure_ = e;
      if (!e.agreed() && comm.size() > 1) abort_with_report(e);
    } catch (const std::exception& e) {
      abort_with_report(as_error(e));
    }
  });
}

void ReportedRun::open(const InputOptions& input, const SyntheticProblem& synthetic) {
  watchdog.enter("open");
  source = timer.time(Phase::kOpen, [&] { return open_source(input, synthetic, comm, [&] { watchdog.touch(); }); });
  progress.line("input: " + describe_source(*source.rows));
}

void ReportedRun::start_backend() {
  watchdog.enter("devices");
  backend = make_backend(run_, comm, timer);
  report.backend = backend->name();
  report.reduce_library = report.backend == "cuda" && run_.comm == ReduceChoice::kNccl ? "nccl" : "mpi";
  report.libraries = backend->libraries();
  tell_places(comm, *backend, run_.verbose, progress);
}

void ReportedRun::keep_checkpoints(const CheckpointOptions& options, std::vector<IdentityField> fields,
                                   const SketchOptions& sketch) {
  if (options.path.empty()) return;
  keeper.emplace(options, comm, progress);
  keeper->start(std::move(fields), sketch);
}

void ReportedRun::tell_trouble() {
  const std::string trouble = keeper ? keeper->take_trouble() : "";
  if (!trouble.empty()) report.warnings.push_back(trouble);
}

void ReportedRun::write(const std::string& status, const std::function<void()>& result) {
  watchdog.enter("write");
  comm.together([] {});  // all are still there: a result is not begun for a job that has lost a rank
  comm.together([&] {
    report.status = status;
    report.exit_code = 0;
    if (!comm.is_root()) return;
    tell_trouble();
    timer.time(Phase::kWrite, result);
  });
  ignore_ending_signals();  // the result is saved: a job that is ended now has not lost it, and must not say so
  // Only now, when no rank can be ended by a signal any more: until then that leaves the checkpoint beside the result.
  if (keeper) comm.barrier();
  if (keeper && comm.is_root()) keeper->finish();
}

int ReportedRun::finish(const std::function<void()>& told, const std::string& result) {
  if (failure_) record_failure(report, *failure_);
  tell_trouble();
  const bool reportable = !failure_ || leaves_report(*failure_);
  if (reportable) {
    watchdog.enter("report");
    gather_ranks(report, comm, backend ? backend->place() : RankPlace{comm.host(), {}, -1, {}, {}, {}}, timer);
  }
  const bool have_result = !failure_ || failure_->kind() == ErrorKind::kNotConverged;
  if (have_result && comm.is_root()) {
    told();
    tell_times_and_warnings(report, timer, progress);
  }
  if (reportable && !report_path_.empty()) {
    try {
      comm.together([&] {
        if (comm.is_root()) write_report(report_path_, report);
      });
    } catch (const Error& e) {
      if (!failure_) {  // the first failure is the one to tell
        failure_ = Error(e.kind(), fmt::format("{} ({}; only the report is missing)", e.what(), result));
        failure_->set_agreed();
      }
    }
  }
  if (failure_) throw *failure_;
  return report.exit_code;
}

}  // namespace tallsketch
