// CheckpointKeeper: when a run saves itself and what, how it stops at a signal, and from where it goes on. One a run, on all
// ranks; the values are on rank 0, which writes. Made by the drivers; told of each step by solver, sketch_pass and refine_pass.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "src/checkpoint.h"
#include "src/options.h"

namespace tallsketch {

class Backend;
class Communicator;
class Progress;
class RowSource;
struct FinishedSketch;
struct SolveContext;

/// What must not differ between a run and the one that goes on: input, method and sketch, as they were asked for.
std::vector<IdentityField> run_fields(const RowSource& source, const SketchOptions& sketch,
                                      const MethodOptions& method);

/// Copies of the sketch in FP64 that a run with checkpoints needs on rank 0, at most: what is done, and, while it is
/// written, its file twice (HDF5's and the bytes of it), or the share that is added. 0 without checkpoints.
int copies_for_checkpoints(const SolveContext& context);

class CheckpointKeeper {
 public:
  CheckpointKeeper(const CheckpointOptions& options, const Communicator& comm, Progress& progress);

  /// Collective, first: reads the checkpoint that the run goes on from, if it does.
  /// Errors  kUsage: a checkpoint that nobody asked to go on from, options that differ, what cannot be saved; kInput: the
  ///         input differs, a corrupt file
  void start(std::vector<IdentityField> run, const SketchOptions& sketch);
  /// The result is written: the checkpoint goes. Rank 0.
  void finish();

  /// Whether there is an attempt to go on with, until begin_attempt; with its d, and the warnings of those before it.
  bool resumes() const { return resumes_; }
  const Attempt& attempt() const { return state_.attempt; }
  const std::vector<std::string>& warnings() const { return state_.warnings; }

  /// The attempt begins: nothing of it is done, unless it is the one to go on with.
  void begin_attempt(const Attempt& attempt, std::int64_t d, const std::vector<std::string>& warnings);
  /// Its columns are multiplied by powers of two: nothing of that is done.
  void begin_scaled(const std::vector<int>& exponents, const std::vector<std::string>& warnings);

  /// What is done of the sketch: exponents and rows on all ranks, as they were when the pass began.
  const std::vector<int>& exponents() const { return state_.exponents; }
  const std::vector<RowRange>& rows() const { return rows_at_start_; }
  /// Adds what is done: after backend.sketch(), on rank 0; to sums over all other rows, on all ranks.
  void add_to(Backend& backend) const;
  void add_to(std::vector<double>& b_squares) const;
  /// Collective: saves the sketch of the rows that the backend has; it begins again with none.
  /// rows       in/out, local: those sketched since the last call; empty afterwards
  /// b_squares  in/out, local: of those rows; zero afterwards
  /// must       the run ends with it: kOutput where it cannot be written, which otherwise is only told
  void save_sketch(Backend& backend, std::vector<RowRange>& rows, std::vector<double>& b_squares, bool must);
  /// The sketch of all these rows is on rank 0's backend; saved there, if that is possible. Collective.
  void save_finished(Backend& backend, const FinishedSketch& sketch, RowRange all_rows);

  /// The answer to a pass that was done before, on rank 0; null where it must be done now, and what followed then is void.
  const NormalSums* answer(const std::vector<double>& x, bool with_b);
  /// A pass that is done. Rank 0.
  void record(const std::vector<double>& x, bool with_b, const NormalSums& sums);
  /// Writes if it is time to, and possible. Rank 0.
  void write_if_due();
  /// Collective: writes, with the passes that are recorded, before a stop. Errors: kOutput
  void save_passes();
  /// A warning for the report, once: that a checkpoint could not be written. Otherwise empty.
  std::string take_trouble();

  /// What this rank wants at a border (stop_request.h): to stop at a signal, and on rank 0 to save when it is time.
  std::int64_t wish() const;
  std::int64_t wish_to_stop() const;
  /// Collective, after saving: ends the run with kStopped on all ranks. wish  that was agreed on
  [[noreturn]] void stop(std::int64_t wish);

 private:
  bool due() const;
  void write();
  void try_to_write();

  CheckpointOptions options_;
  const Communicator& comm_;
  Progress& progress_;
  Checkpoint state_;
  std::vector<RowRange> rows_at_start_;
  bool resumes_ = false;
  bool in_trouble_ = false;   // the user was told
  std::string trouble_;       // and the report not yet
  std::size_t answered_ = 0;  // passes of the log that were asked for again
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

}  // namespace tallsketch
