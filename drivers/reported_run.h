// ReportedRun: what a subcommand that leaves a report does around its work: watchdog, log, timer, the report on every exit
// but 1 and 2, and the error that all ranks agree on. Used by the solve and sketch drivers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/backend.h"
#include "src/checkpoint_keeper.h"
#include "src/error.h"
#include "src/open_source.h"
#include "src/options.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/solver.h"
#include "src/watchdog.h"

namespace tallsketch {

class Communicator;

class ReportedRun {
 public:
  /// report  file, "-" for standard output (the log is on standard error then), or empty
  ReportedRun(const Communicator& comm, const RunOptions& run, const std::string& report,
              const std::string& command_line);

  /// Runs the work. Errors that all ranks agree on are kept for `finish`; what only this rank knows ends the job, with a
  /// report from rank 0.
  void attempt(const std::function<void()>& work);
  /// Pieces of the work; they tell the user. Collective.
  void open(const InputOptions& input, const SyntheticProblem& synthetic);
  void start_backend();
  /// On rank 0, as the phase `write`: the result, after which the checkpoint goes and signals lose nothing.
  void write(const std::string& status, const std::function<void()>& result);

  /// Collective: the report, then the first error, if any. Where there is a result, rank 0 tells the user of it, of the
  /// times and of the warnings.
  /// told    the words on the result
  /// result  what is complete even if the report cannot be written: "x is complete in 'x.h5'"
  int finish(const std::function<void()>& told, const std::string& result);

  /// Collective: makes the run save itself, where that was asked for, and go on. run  what must not differ then
  void keep_checkpoints(const CheckpointOptions& options, std::vector<IdentityField> fields,
                        const SketchOptions& sketch);

  SolveContext context() { return {comm, watchdog, progress, timer, keeper ? &*keeper : nullptr}; }

  const Communicator& comm;
  Progress progress;
  Watchdog watchdog;
  OpenedSource source;  // from open on; here, because its closing is collective and no error of one rank may come to it
  PhaseTimer timer;
  Report report;
  std::unique_ptr<Backend> backend;
  std::optional<CheckpointKeeper> keeper;

 private:
  [[noreturn]] void abort_with_report(const Error& error);
  /// What the report says of checkpoints. Rank 0.
  void tell_trouble();

  const RunOptions& run_;
  std::string report_path_;
  std::optional<Error> failure_;
};

}  // namespace tallsketch
