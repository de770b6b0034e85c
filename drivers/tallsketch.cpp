// The program: parses the command line, checks the launcher, runs a subcommand, turns an Error into one message and the
// documented exit code on every rank.

#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "drivers/commands.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/hdf5_probe.h"
#include "src/launch.h"
#include "src/progress.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {
namespace {

const char* const kExitCodes =
    "Exit codes: 0 solved | 1 internal | 2 usage | 3 input | 4 NaN or Inf, or data that the sketch cannot hold | "
    "5 rank deficient | 6 not converged | 7 out of memory | 8 communication | 9 output not written | 75 stopped by a "
    "signal";

void print_once(const Communicator& comm, std::FILE* stream, const std::string& text) {
  if (!comm.is_root()) return;
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

/// The parser's message, what it did not understand, and where the options are listed.
std::string usage_text(const CLI::App& app, const std::string& message) {
  std::string command = "tallsketch";
  for (const CLI::App* chosen = &app; !chosen->get_subcommands().empty();) {
    chosen = chosen->get_subcommands().front();
    command += " " + chosen->get_name();
  }
  const auto unknown = app.remaining(true);
  const bool named = unknown.empty() || message.find(unknown.front()) != std::string::npos;
  return fmt::format("{}{} (see {} --help)", message,
                     named ? "" : fmt::format("; not understood: {}", fmt::join(unknown, " ")), command);
}

std::string joined(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i == 0 ? "" : " ") + std::string(argv[i]);
  return line;
}

/// Where standard output is the result, it has to have been written.
int printed(const Communicator& comm, int code) {
  comm.together([&] {
    const bool good = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    require(good, ErrorKind::kOutput, "cannot write to standard output (is the disk full?)");
  });
  return code;
}

int run(int argc, char** argv, const Communicator& comm) {
  CLI::App app(
      "tallsketch: least squares min ||A x - b|| for tall dense matrices, by sparse random sketching on MPI "
      "ranks and GPUs");
  app.name("tallsketch");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text(), "version, commit, compiler, libraries");

  SolveOptions solve;
  solve.command_line = joined(argc, argv);
  CLI::App* solve_app = app.add_subcommand("solve", "solve min ||A x - b|| for A, b in HDF5");
  add_solve_options(*solve_app, solve);
  SketchFileOptions sketch;
  sketch.command_line = joined(argc, argv);
  CLI::App* sketch_app =
      app.add_subcommand("sketch", "write the sketch of [A | b], or of some of its rows, to a file; add such files");
  add_sketch_file_options(*sketch_app, sketch);
  GenerateOptions generate;
  CLI::App* generate_app = app.add_subcommand("generate", "write a problem with known x to HDF5, in parallel");
  add_generate_options(*generate_app, generate);
  InspectOptions inspect;
  CLI::App* inspect_app =
      app.add_subcommand("inspect", "show a file's shapes, types, layout, and the plan, without running");
  add_inspect_options(*inspect_app, inspect);
  CLI::App* bench_app = app.add_subcommand("bench", "measure; one JSON line a run");
  bench_app->require_subcommand(1);
  BenchSketchOptions bench_sketch;
  CLI::App* bench_sketch_app = bench_app->add_subcommand("sketch", "sketch kernels beside a read-only pass over A");
  add_bench_sketch_options(*bench_sketch_app, bench_sketch);
  BenchSolveOptions bench_solve;
  CLI::App* bench_solve_app =
      bench_app->add_subcommand("solve", "whole solves by several routes beside a read-only pass over A, and rivals");
  add_bench_solve_options(*bench_solve_app, bench_solve);
  BenchPassesOptions bench_passes;
  CLI::App* bench_passes_app =
      bench_app->add_subcommand("passes", "the refinement pass A^T (b - A x) beside a read-only pass over A");
  add_bench_passes_options(*bench_passes_app, bench_passes);
  BenchReduceOptions bench_reduce;
  CLI::App* bench_reduce_app =
      bench_app->add_subcommand("reduce", "the all-reduce of sketches over all ranks: times, bandwidths, right or not");
  add_bench_reduce_options(*bench_reduce_app, bench_reduce);
  BenchIoOptions bench_io;
  CLI::App* bench_io_app = bench_app->add_subcommand(
      "io", "rows from files to the sketch, step by step, beside plain reads and plain copies to the device");
  add_bench_io_options(*bench_io_app, bench_io);
  CLI::App* study_app = app.add_subcommand("study", "the experiments of the papers at a chosen size; CSV");
  study_app->require_subcommand(1);
  StudyGeometryOptions study_geometry;
  CLI::App* study_geometry_app =
      study_app->add_subcommand("geometry", "distortion of orthonormal bases from low coherence to coordinate rows");
  add_study_geometry_options(*study_geometry_app, study_geometry);
  StudyLstsqOptions study_lstsq;
  CLI::App* study_lstsq_app = study_app->add_subcommand(
      "lstsq", "residual, coefficient error and time of solves of a low-coherence and a coherent system");
  add_study_lstsq_options(*study_lstsq_app, study_lstsq);
  StudyRangeOptions study_range;
  CLI::App* study_range_app =
      study_app->add_subcommand("range", "16-bit sketches of the same systems times powers of two");
  add_study_range_options(*study_range_app, study_range);
  StudyCoherenceOptions study_coherence;
  CLI::App* study_coherence_app = study_app->add_subcommand(
      "coherence", "Gram matrix, embedding, ridge and sketch-and-solve against time; coherences of blocks");
  add_study_coherence_options(*study_coherence_app, study_coherence);
  for (CLI::App* command : {solve_app, sketch_app, generate_app, inspect_app, bench_app, bench_sketch_app,
                            bench_solve_app, bench_passes_app, bench_reduce_app, bench_io_app, study_app,
                            study_geometry_app, study_lstsq_app, study_range_app, study_coherence_app})
    command->footer(kExitCodes);

  for (InputOptions* const input : {&solve.input, &sketch.input, &inspect.input, &bench_io.input})
    input->probe_program = "/proc/self/exe";  // also where the file was replaced since

  std::string asked_for;  // help or version, instead of a run
  comm.together([&] {
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      asked_for = app.help();  // of the subcommand given, if any
    } catch (const CLI::CallForVersion&) {
      asked_for = version_text() + "\n";
    } catch (const CLI::ParseError& e) {
      throw Error(ErrorKind::kUsage, usage_text(app, e.what()));
    }
  });
  if (!asked_for.empty()) {
    print_once(comm, stdout, asked_for);
    return 0;
  }

  if (*solve_app) return run_solve(solve, comm);  // checks the launcher itself: its report tells
  if (*sketch_app) return run_sketch(sketch, comm);
  const bool ignore = generate.run.ignore_launcher || inspect.run.ignore_launcher || bench_sketch.run.ignore_launcher ||
                      bench_solve.run.ignore_launcher || bench_passes.run.ignore_launcher ||
                      bench_reduce.run.ignore_launcher || bench_io.run.ignore_launcher ||
                      study_geometry.run.ignore_launcher || study_lstsq.run.ignore_launcher ||
                      study_range.run.ignore_launcher || study_coherence.run.ignore_launcher;
  if (!ignore) comm.together([&] { check_launcher(comm.size(), process_environment()); });
  if (*generate_app) return run_generate(generate, comm);
  if (*inspect_app) return printed(comm, run_inspect(inspect, comm));
  if (*bench_sketch_app) return printed(comm, run_bench_sketch(bench_sketch, comm));
  if (*bench_solve_app) return printed(comm, run_bench_solve(bench_solve, comm));
  if (*bench_passes_app) return printed(comm, run_bench_passes(bench_passes, comm));
  if (*bench_reduce_app) return printed(comm, run_bench_reduce(bench_reduce, comm));
  if (*bench_io_app) return printed(comm, run_bench_io(bench_io, comm));
  if (*study_geometry_app) return printed(comm, run_study_geometry(study_geometry, comm));
  if (*study_lstsq_app) return printed(comm, run_study_lstsq(study_lstsq, comm));
  if (*study_range_app) return printed(comm, run_study_range(study_range, comm));
  return printed(comm, run_study_coherence(study_coherence, comm));
}

/// Every error becomes one message and an exit code here.
int run_or_tell(int argc, char** argv, const Communicator& comm) {
  try {
    return run(argc, argv, comm);
  } catch (const Error& e) {
    ignore_ending_signals();
    if (!e.agreed() && comm.size() > 1) comm.abort_alone(e);
    print_once(comm, stderr, fmt::format("tallsketch: error: {}\n", printable(e.text())));
    return e.exit_code();
  } catch (const std::exception& e) {
    comm.abort_alone(as_error(e));
  }
}

/// Runs what hangs where a rank cannot be reached, and has no other deadline: options are not known yet, or no more.
void guarded(const char* stage, const std::function<void()>& work) {
  constexpr double kSeconds = 600;
  Watchdog watchdog(kSeconds, fmt::format("process {}", ::getpid()));
  watchdog.enter(stage);
  work();
}

}  // namespace
}  // namespace tallsketch

int main(int argc, char** argv) {
  using namespace tallsketch;
  if (argc > 1 && std::string_view(argv[1]) == kProbeCommand) return run_probe(argc - 2, argv + 2);  // no rank of MPI
  // Who started this may ignore the ends of its children: then the system would not tell how a probe ended.
  std::signal(SIGCHLD, SIG_DFL);
  // A file-size limit must come back as an error of write(2), with its reason, not end the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // From the first moment: a job that is requeued by a signal's code has it during MPI's start, too.
  end_cleanly_on_signals(false);
  try {
    std::optional<MpiSession> session;
    std::optional<Communicator> comm;
    guarded("start of MPI", [&] {
      session.emplace(argc, argv);
      comm.emplace(MPI_COMM_WORLD);
    });
    end_cleanly_on_signals(comm->is_root());
    const int result = run_or_tell(argc, argv, *comm);
    guarded("end of MPI", [&] {
      comm.reset();
      session.reset();
    });
    return result;
  } catch (const std::exception& e) {
    std::fputs(fmt::format("tallsketch: error: {}\n", e.what()).c_str(), stderr);
    const bool no_memory = as_error(e).kind() == ErrorKind::kMemory;
    return static_cast<int>(no_memory ? ErrorKind::kMemory : ErrorKind::kCommunication);
  }
}
