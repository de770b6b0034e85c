// tallsketch solve: opens the input, solves, writes x and the report, and tells the user how it went.

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "src/atomic_file.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/file_source.h"
#include "src/hdf5_writer.h"
#include "src/launch.h"
#include "src/open_source.h"
#include "src/progress.h"
#include "src/solver.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  // Absolute first: of a name that does not exist yet, weakly_canonical leaves "./" and the folder out.
  const auto resolved = [&](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(name, ignored), ignored);
  };
  return std::filesystem::equivalent(a, b, ignored) || resolved(a) == resolved(b);
}

/// Everything that would make the result unwritable is found before hours of work, not after.
void check_outputs(const SolveOptions& options, const std::string& output) {
  for (const std::string& input : input_paths(options.input)) {
    require(!same_file(output, input), ErrorKind::kUsage,
            fmt::format("--output '{}' is an input; choose another name (an input is never replaced)", output));
    require(options.report.empty() || options.report == "-" || !same_file(options.report, input), ErrorKind::kUsage,
            fmt::format("--report '{}' is an input; choose another name (an input is never replaced)", options.report));
  }
  require(options.report.empty() || options.report == "-" || !same_file(options.report, output), ErrorKind::kUsage,
          fmt::format("--report and --output are the same file '{}'", output));
  const AtomicFile probe(output);
  if (!options.report.empty() && options.report != "-") const AtomicFile report_probe(options.report);
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

void write_report(const std::string& path, const Report& report) {
  const std::string json = to_json(report);
  if (path != "-") {
    write_file_atomically(path, as_bytes(json));
    return;
  }
  const bool written = std::fwrite(json.data(), 1, json.size(), stdout) == json.size() && std::fflush(stdout) == 0;
  require(written, ErrorKind::kOutput, "cannot write the report to standard output");
}

const char* over_columns(const Report& report) { return report.shape->r == 1 ? "" : " over all columns"; }

void tell_residual_of_sketch(const Report& report, Progress& progress) {
  const SolverOutcome& s = report.solver;
  const auto freedom = static_cast<double>(report.sketch->d - s.check_rows - *s.rank);
  progress.line(fmt::format(
      "residual: ||A x - b|| about {:.3g}{}, {:.3g} of ||b|| (standard deviation {:.0f} %); expected {:.0f} % above "
      "the least residual",
      *s.residual_norm, over_columns(report), *s.relative_residual, 100 / std::sqrt(freedom),
      100 * *s.residual_excess_estimate));
  if (s.residual_check && s.residual_excess_check) {
    progress.line(
        fmt::format("residual by {} sketch rows that x has not seen: {:.3g}, {:.0f} % above the least (standard "
                    "deviation {:.0f} %)",
                    s.check_rows, *s.residual_check, 100 * *s.residual_excess_check,
                    100 / std::sqrt(2.0 * static_cast<double>(s.check_rows * report.shape->r))));
  }
  progress.line(fmt::format("backward error: about {:.2g} of ||A||, estimated; --method refine certifies one",
                            *s.backward_error_estimate));
  if (s.x_error_estimate) {
    progress.line(fmt::format("x against the least-squares x: expected to differ by about {:.2g} of the norm of this x",
                              *s.x_error_estimate));
  }
}

void tell_residual_of_refinement(const Report& report, Progress& progress) {
  const SolverOutcome& s = report.solver;
  progress.line(fmt::format("refine: {} after {} passes over A: backward error {:.2g} of ||A||, certified by the {}",
                            s.converged ? "converged" : "NOT converged (" + s.reason + ")", s.passes, *s.backward_error,
                            s.preconditioner == to_word(PreconditionerChoice::kGram) ? "Gram matrix" : "sketch"));
  progress.line(fmt::format(
      "residual: ||A x - b|| = {:.6g}{}, {:.3g} of ||b||, {:.1g} % above the least; ||A^T (A x - b)|| = {:.2g}, "
      "columns "
      "scaled{}",
      *s.residual_norm, over_columns(report), *s.relative_residual, 100 * s.residual_excess_estimate.value_or(0),
      *s.normal_residual, s.ridge > 0 ? "; all with the rows of the ridge" : ""));
}

void tell_outcome(const Report& report, const PhaseTimer& timer, const std::string& output, Progress& progress) {
  const SolverOutcome& s = report.solver;
  progress.line(fmt::format("x: n = {}{}, ||x|| = {:.6g}, written to {}", report.shape->n,
                            report.shape->r == 1 ? std::string() : fmt::format(", r = {}", report.shape->r), *s.x_norm,
                            output));
  if (s.backward_error) {
    tell_residual_of_refinement(report, progress);
  } else {
    tell_residual_of_sketch(report, progress);
  }
  progress.line(fmt::format("condition of A with scaled columns about {:.3g}, matrix rank {} of {}, by {}",
                            *s.condition_estimate, *s.rank, report.shape->n, s.reduced_solver));
  if (s.standard_error_spread) {
    progress.line(fmt::format("standard errors: in /standard_errors, by the {}, uncertain by {:.2g} %",
                              s.preconditioner == to_word(PreconditionerChoice::kGram) ? "Gram matrix" : "sketch",
                              100 * *s.standard_error_spread));
  }
  std::string times;
  for (const Phase phase : {Phase::kOpen, Phase::kRead, Phase::kUpload, Phase::kSketch, Phase::kReduce, Phase::kFactor,
                            Phase::kRefine, Phase::kWrite, Phase::kTotal}) {
    if ((phase == Phase::kUpload || phase == Phase::kRefine) && timer.seconds(phase) == 0) continue;
    times += fmt::format("{}{} {:.3f}", times.empty() ? "" : ", ", kPhaseNames[static_cast<std::size_t>(phase)],
                         timer.seconds(phase));
  }
  progress.line("time on rank 0, seconds: " + times);
  for (const std::string& warning : report.warnings) progress.line("warning: " + warning);
  for (const std::string& warning : report.source.warnings) progress.line("warning: " + warning);
}

void record_failure(Report& report, const Error& failure) {
  report.status = status_word(failure.kind());
  report.exit_code = failure.exit_code();
  report.message = failure.what();
}

/// x is written by now, and says in its provenance how good it is.
void require_converged(const SolverOutcome& s) {
  require(s.converged, ErrorKind::kNotConverged,
          fmt::format(
              "refinement has not converged: {} after {} passes over A, backward error {:.2g}; x is written all "
              "the same; {}more --max-iters or a larger --tol may help",
              s.reason, s.passes, s.backward_error.value_or(std::numeric_limits<double>::infinity()),
              s.preconditioner == to_word(PreconditionerChoice::kGram) ? "--preconditioner sketch, "
                                                                       : "a larger --oversample, --precision fp64, "));
}

bool leaves_report(const Error& failure) {
  return failure.kind() != ErrorKind::kInternal && failure.kind() != ErrorKind::kUsage;
}

/// Collective: a line for every rank.
void tell_ranks(const Communicator& comm, const Backend& backend, Progress& progress) {
  const auto lines = comm.gather(fmt::format("{}, {}", comm.host(), backend.device()));
  for (std::size_t rank = 0; rank < lines.size(); ++rank) progress.line(fmt::format("rank {}: {}", rank, lines[rank]));
}

/// What the residual does not tell: x may be far from the least-squares solution although it fits nearly as well.
void warn_of_x(Report& report) {
  const SolverOutcome& s = report.solver;
  const SketchPrecision precision = report.sketch->precision;
  const bool refined = s.backward_error.has_value();
  // Above, x has about one digit: a relative error of condition times the sketch's rounding, or the certificate.
  const double resolved = refined ? 0.1 / *s.backward_error : precision == SketchPrecision::kFp64 ? 5e13 : 1e5;
  constexpr double kFar = 0.3;  // of ||x||: single coefficients may then have the wrong sign
  if (*s.rank < report.shape->n) {
    report.warnings.push_back(fmt::format(
        "the columns of A are dependent as far as an {} sketch can tell (matrix rank {} of {}): of many x that "
        "fit as well, this is the one of least norm",
        to_word(precision), *s.rank, report.shape->n));
  } else if (*s.condition_estimate > resolved) {
    report.warnings.push_back(fmt::format(
        "the condition {:.2g} is near what {} can resolve: few digits of x are certain", *s.condition_estimate,
        refined ? std::string("this backward error") : fmt::format("an {} sketch", to_word(precision))));
  }
  if (s.x_error_estimate && *s.x_error_estimate > kFar) {
    report.warnings.push_back(
        "single coefficients of x may have the wrong size or sign, although x fits nearly as well as "
        "the least-squares solution; raise --oversample, and compare several --seed");
  }
}

}  // namespace

int run_solve(const SolveOptions& options, const Communicator& comm) {
  std::FILE* const stream = options.report == "-" ? stderr : stdout;
  Progress progress(comm.is_root() && !options.run.quiet ? stream : nullptr, options.run.verbose, comm.size());
  Watchdog watchdog(options.run.timeout, fmt::format("rank {} on {}", comm.rank(), comm.host()), &progress);
  PhaseTimer timer;
  Report report;
  report.command_line = options.command_line;
  report.size = comm.size();
  report.nodes = comm.nodes();
  const std::string output =
      options.output.empty() ? default_output(options.input, options.synthetic, ".x.h5") : options.output;
  std::unique_ptr<Backend> backend;
  std::optional<Error> failure;
  std::optional<double> error_of_x;  // against the x that a synthetic problem was made with

  // For what only this rank knows: rank 0 still leaves a report, then the job ends.
  const auto abort_with_report = [&](const Error& error) {
    record_failure(report, error);
    if (comm.is_root() && leaves_report(error) && !options.report.empty()) write_report(options.report, report);
    comm.abort_alone(error);
  };

  timer.time(Phase::kTotal, [&] {
    try {
      progress.line(fmt::format("tallsketch {} ({}), {} rank{} on {} node{}", version_number(), version_git(),
                                comm.size(), plural(comm.size()), comm.nodes(), plural(comm.nodes())));
      if (!options.run.ignore_launcher) {
        comm.together([&] { check_launcher(comm.size(), process_environment()); });
      }
      watchdog.enter("open");
      const OpenedSource opened =
          timer.time(Phase::kOpen, [&] { return open_source(options.input, options.synthetic, comm); });
      RowSource* const source = opened.rows.get();
      comm.together([&] {
        if (comm.is_root()) check_outputs(options, output);
      });
      const ProblemShape& shape = source->shape();
      progress.line("input: " + describe_source(*source));
      watchdog.enter("devices");
      backend = make_backend(options.run, comm, timer);
      report.backend = backend->name();
      report.reduce_library = report.backend == "cuda" && options.run.comm == ReduceChoice::kNccl ? "nccl" : "mpi";
      progress.line(fmt::format("backend: {}, {}", backend->name(), backend->device()));
      if (options.run.verbose) tell_ranks(comm, *backend, progress);
      const Solution solution = solve(options.sketch, options.method, options.run.chunk_rows, *source, *backend,
                                      {comm, watchdog, progress, timer}, report);
      watchdog.enter("write");
      comm.together([&] {
        report.status = "solved";
        report.exit_code = 0;
        if (!comm.is_root()) return;
        warn_of_x(report);
        if (!opened.x_true.empty()) error_of_x = relative_error(solution.x, opened.x_true);
        timer.time(Phase::kWrite, [&] {
          write_file_atomically(output, solution_image(solution, shape.n, shape.r, provenance_json(report)));
        });
      });
      ignore_ending_signals();  // x is saved: a job that is ended now has not lost it, and must not say so
      comm.together([&] {
        if (comm.is_root()) require_converged(report.solver);
      });
    } catch (const Error& e) {
      failure = e;
      if (!e.agreed() && comm.size() > 1) abort_with_report(e);  // while the source is open: its closing is collective
    } catch (const std::exception& e) {
      abort_with_report(Error(ErrorKind::kInternal, fmt::format("unexpected: {}", e.what())));
    }
  });

  if (failure) record_failure(report, *failure);
  const bool reportable = !failure || leaves_report(*failure);
  if (reportable) {
    watchdog.enter("report");
    gather_ranks(report, comm, backend ? backend->device() : "", backend ? backend->device_uuid() : "", timer);
  }
  const bool have_x = !failure || failure->kind() == ErrorKind::kNotConverged;
  if (have_x && comm.is_root()) tell_outcome(report, timer, output, progress);
  if (have_x && error_of_x) {
    progress.line(fmt::format("error of x against x_true: {:.2g} of ||x_true||, noise of b included", *error_of_x));
  }
  if (reportable && !options.report.empty()) {
    try {
      comm.together([&] {
        if (comm.is_root()) write_report(options.report, report);
      });
    } catch (const Error& e) {
      if (!failure) {  // the first failure is the one to tell
        failure =
            Error(e.kind(), fmt::format("{} (x is complete in '{}'; only the report is missing)", e.what(), output));
        failure->set_agreed();
      }
    }
  }
  if (failure) throw *failure;
  return report.exit_code;
}

}  // namespace tallsketch
