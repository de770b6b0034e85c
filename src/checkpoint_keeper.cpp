#include "src/checkpoint_keeper.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/atomic_file.h"
#include "src/backend.h"
#include "src/choices.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/row_ranges.h"
#include "src/row_source.h"
#include "src/sketch_json.h"
#include "src/sketch_pass.h"
#include "src/solver.h"
#include "src/stop_request.h"
#include "src/text.h"

namespace tallsketch {

namespace {

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? fmt::to_string(*value) : "default";
}

/// "SIGTERM"
std::string signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    default: return fmt::format("signal {}", signal);
  }
}

/// What a run that was killed in the middle of writing left behind: two runs never have the same checkpoint.
void remove_leftovers(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string prefix = file.filename().string() + ".tmp.";
  const auto is_leftover = [&](const std::string& name) {  // as AtomicFile names them: FILE.tmp.<digits>.<digits>
    if (!name.starts_with(prefix)) return false;
    const std::string rest = name.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    const bool numbers = rest.find_first_not_of("0123456789.") == std::string::npos;
    return numbers && dot != std::string::npos && dot > 0 && dot + 1 < rest.size() &&
           rest.find('.', dot + 1) == std::string::npos;
  };
  std::error_code ignored;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_leftover(entry.path().filename().string())) std::filesystem::remove(entry.path(), ignored);
  }
}

/// Saves because a signal asked for it: where that fails, the run ends with that error, and not with the signal.
void for_signal(const std::function<void()>& save) {
  try {
    save();
  } catch (...) {
    ignore_ending_signals();
    throw;
  }
}

}  // namespace

std::vector<IdentityField> run_fields(const RowSource& source, const SketchOptions& sketch,
                                      const MethodOptions& method) {
  const ProblemShape& shape = source.shape();
  return {{"input", source.identity()},
          {"m", fmt::to_string(shape.m)},
          {"n", fmt::to_string(shape.n)},
          {"r", fmt::to_string(shape.r)},
          {"dtype", to_word(shape.a_type)},
          {"--method", to_word(method.method)},
          {"--tol", fmt::to_string(method.tolerance)},
          {"--max-iters", fmt::to_string(method.max_passes)},
          {"--ridge", fmt::to_string(method.ridge)},
          {"--preconditioner", to_word(method.preconditioner)},
          {"--reduced-solver", to_word(method.reduced_solver)},
          {"--rank-deficient", to_word(method.rank_policy)},
          {"--standard-errors", method.standard_errors ? "yes" : "no"},
          {"--sketch", to_word(sketch.family)},
          {"--hash", to_word(sketch.hash)},
          {"--precision", to_word(sketch.precision)},
          {"--rounding", to_word(sketch.rounding)},
          {"--scaling", to_word(sketch.scaling)},
          {"--reduce", to_word(sketch.reduce)},
          {"--zeta", text_of(sketch.zeta)},
          {"--kappa", text_of(sketch.kappa)},
          {"--block-nnz", text_of(sketch.block_nnz)},
          {"--block-rows", text_of(sketch.block_rows)},
          {"--input-blocks", sketch.input_blocks ? to_word(*sketch.input_blocks) : "default"},
          {"--oversample", fmt::to_string(sketch.oversample)},
          {"--sketch-rows", fmt::to_string(sketch.sketch_rows)},
          {"--check-rows", text_of(sketch.check_rows)},
          {"--seed", fmt::to_string(sketch.seed)}};
}

int copies_for_checkpoints(const SolveContext& context) { return context.keeper != nullptr ? 3 : 0; }

CheckpointKeeper::CheckpointKeeper(const CheckpointOptions& options, const Communicator& comm, Progress& progress)
    : options_(options), comm_(comm), progress_(progress) {}

void CheckpointKeeper::start(std::vector<IdentityField> run, const SketchOptions& sketch) {
  std::string identity;
  comm_.together([&] {
    require(!is_half(sketch.precision), ErrorKind::kUsage,
            fmt::format("--checkpoint saves sketches in fp32 and fp64; a --precision {} sketch has to be made at once: "
                        "use fp32, or leave --checkpoint out",
                        to_word(sketch.precision)));
    require(
        comm_.size() == 1 || mpi_is_multithreaded(), ErrorKind::kCommunication,
        "--checkpoint needs an MPI library with MPI_THREAD_MULTIPLE, because ranks agree on a stop while they read");
    if (!comm_.is_root()) return;
    const bool exists = std::filesystem::exists(options_.path);
    require(!exists || options_.resume, ErrorKind::kUsage,
            fmt::format("checkpoint '{}' exists: go on from it with --resume, or remove it to start from the beginning",
                        options_.path));
    if (exists) {
      state_ = read_checkpoint(options_.path, sketch);
      require_same_run(state_, run, options_.path);
      identity = checkpoint_json(state_);
      note_checkpoint(true);
      const std::size_t passes = state_.passes.size();
      progress_.line(fmt::format(
          "going on from '{}': {} rows are sketched{}", options_.path, count_rows(state_.rows),
          passes == 0 ? "" : fmt::format(", {} pass{} of refinement done", passes, passes == 1 ? " is" : "es are")));
    } else if (options_.resume) {
      progress_.line(fmt::format("no checkpoint '{}': starting from the beginning", options_.path));
    }
    remove_leftovers(options_.path);
    const AtomicFile writable(options_.path);  // a name that cannot be is told now, not after the first interval
  });
  identity = comm_.broadcast(identity);
  resumes_ = !identity.empty();
  if (resumes_) {
    comm_.together([&] {
      if (!comm_.is_root()) state_ = parse_checkpoint(identity, options_.path, sketch);
    });
    comm_.broadcast(state_.b_squares.data(), static_cast<std::int64_t>(state_.b_squares.size()) * 8);
  }
  state_.run = std::move(run);
}

void CheckpointKeeper::finish() {
  std::error_code ignored;
  std::filesystem::remove(options_.path, ignored);
}

void CheckpointKeeper::begin_attempt(const Attempt& attempt, std::int64_t d, const std::vector<std::string>& warnings) {
  if (!std::exchange(resumes_, false)) {
    state_ = {std::move(state_.run), attempt, {}, {}, {}, {}, {}, warnings};
    state_.attempt.fixed_rows = d;
  }
  rows_at_start_ = state_.rows;
  answered_ = 0;
}

void CheckpointKeeper::begin_scaled(const std::vector<int>& exponents, const std::vector<std::string>& warnings) {
  state_ = {std::move(state_.run), state_.attempt, exponents, {}, {}, {}, {}, warnings};
  rows_at_start_.clear();
}

void CheckpointKeeper::add_to(Backend& backend) const {
  if (!state_.sketch.empty()) backend.add_partial(state_.sketch);
}

void CheckpointKeeper::add_to(std::vector<double>& b_squares) const {
  for (std::size_t k = 0; k < state_.b_squares.size(); ++k) b_squares[k] += state_.b_squares[k];
}

void CheckpointKeeper::save_sketch(Backend& backend, std::vector<RowRange>& rows, std::vector<double>& b_squares,
                                   bool must) {
  std::vector<double> sketch;
  comm_.together([&] {
    backend.sketch();
    sketch = backend.sketch_copy();
    backend.restart_sketch();
  });
  comm_.sum(sketch.data(), static_cast<std::int64_t>(sketch.size()));
  comm_.sum(b_squares.data(), static_cast<std::int64_t>(b_squares.size()));
  state_.b_squares.resize(b_squares.size());
  for (std::size_t k = 0; k < b_squares.size(); ++k) state_.b_squares[k] += std::exchange(b_squares[k], 0.0);
  const std::vector<std::string> texts = comm_.gather(json_of_rows(joined_ranges(rows)).dump());
  rows.clear();
  const auto keep = [&] {
    if (!comm_.is_root()) return;
    for (const std::string& text : texts) {
      const std::vector<RowRange> of_rank = rows_of_json(nlohmann::ordered_json::parse(text), "a rank");
      state_.rows.insert(state_.rows.end(), of_rank.begin(), of_rank.end());
    }
    state_.rows = joined_ranges(std::move(state_.rows));
    if (state_.sketch.empty()) {
      state_.sketch = std::move(sketch);
    } else {
      for (std::size_t i = 0; i < sketch.size(); ++i) state_.sketch[i] += sketch[i];
    }
    sketch = {};  // its memory is the file's now
    if (must) {
      write();
    } else {
      try_to_write();
    }
  };
  if (must) {
    for_signal([&] { comm_.together(keep); });
  } else {
    comm_.together(keep);
  }
}

void CheckpointKeeper::save_finished(Backend& backend, const FinishedSketch& sketch, RowRange all_rows) {
  const bool known = count_rows(rows_at_start_) == all_rows.size();  // it was read from there, and is there
  state_.exponents = sketch.exponents;
  state_.b_squares = sketch.b_squares;
  if (state_.b_squares.empty()) {
    // Of kept rows, which are not scaled; the root of the square of a number is that number.
    for (const double norm : sketch.b_norms) state_.b_squares.push_back(norm * norm);
  }
  comm_.together([&] {
    if (!comm_.is_root() || known) return;
    state_.rows = {all_rows};
    state_.sketch = {};
    state_.sketch = backend.sketch_copy();
    try_to_write();
  });
}

const NormalSums* CheckpointKeeper::answer(const std::vector<double>& x, bool with_b) {
  if (answered_ >= state_.passes.size()) return nullptr;
  if (state_.passes[answered_].question != question_of(x, with_b)) {
    state_.passes.resize(answered_);
    return nullptr;
  }
  return &state_.passes[answered_++].sums;
}

void CheckpointKeeper::record(const std::vector<double>& x, bool with_b, const NormalSums& sums) {
  state_.passes.push_back({question_of(x, with_b), sums});
  answered_ = state_.passes.size();
}

bool CheckpointKeeper::due() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - written_).count() >= options_.every;
}

void CheckpointKeeper::write_if_due() {
  if (due()) try_to_write();
}

void CheckpointKeeper::save_passes() {
  for_signal([&] {
    comm_.together([&] {
      if (comm_.is_root()) write();
    });
  });
}

void CheckpointKeeper::write() {
  write_file_atomically(options_.path, checkpoint_image(state_));
  note_checkpoint(true);
  written_ = std::chrono::steady_clock::now();
  progress_.detail(fmt::format("checkpoint: {} rows, {} passes in '{}'", count_rows(state_.rows), state_.passes.size(),
                               options_.path));
}

/// A run of hours is worth more than one of its checkpoints: a disk that is full now may have room at the next.
void CheckpointKeeper::try_to_write() {
  try {
    write();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kOutput) throw;
    written_ = std::chrono::steady_clock::now();  // not again at every border
    if (std::exchange(in_trouble_, true)) return;
    trouble_ = fmt::format("a checkpoint could not be written, and the run went on without it: {}", e.what());
    progress_.warning(trouble_);
  }
}

std::string CheckpointKeeper::take_trouble() { return std::exchange(trouble_, {}); }

std::int64_t CheckpointKeeper::wish_to_stop() const {
  const int signal = DeferSignals::received();
  return signal == 0 ? Wish::kGoOn : Wish::stop_by(signal);
}

std::int64_t CheckpointKeeper::wish() const {
  const std::int64_t stop = wish_to_stop();
  if (stop != Wish::kGoOn) return stop;
  return comm_.is_root() && due() ? Wish::kSave : Wish::kGoOn;
}

void CheckpointKeeper::stop(std::int64_t wish) {
  ignore_ending_signals();
  comm_.together([&] {
    throw Error(ErrorKind::kStopped, fmt::format("stopped by {}: checkpoint written to '{}', go on with --resume",
                                                 signal_name(Wish::signal(wish)), options_.path));
  });
  throw Error(ErrorKind::kInternal, "no rank stopped");  // together threw
}

}  // namespace tallsketch
