// Runs that save themselves, on the host (mpi.checkpoint) and on GPUs (cuda.checkpoint): stopped by a signal to one rank at any
// row, or by an error, and gone on with at any number of ranks, they find the x of a run that nobody stopped, bit for bit.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "src/backend.h"
#include "src/checkpoint_keeper.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/from_sketch.h"
#include "src/progress.h"
#include "src/sketching.h"
#include "src/solver.h"
#include "src/watchdog.h"
#include "tests/support/exact_source.h"
#include "tests/support/failing_backend.h"
#include "tests/support/mpi_check.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 1501, kCols = 6, kRhs = 2, kChunkRows = 50;

/// Integer rows; the n-th read of a rank raises a signal, fails, or does something else.
class InterruptedSource final : public RowSource {
 public:
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  std::string identity() const override { return identity_; }
  void read(RowRange rows, void* a, double* b) override {
    reads_ += 1;
    rows_read_ += rows.size();
    if (reads_ == signal_at) std::raise(SIGTERM);
    if (reads_ == fail_at) throw Error(ErrorKind::kInput, "this read fails");
    if (reads_ == disturb_at) disturb();
    source_.read(rows, a, b);
    if (factor == 1) return;
    for (std::int64_t i = 0; i < rows.size() * kCols; ++i) static_cast<double*>(a)[i] *= factor;
  }
  std::int64_t reads() const { return reads_; }
  std::int64_t rows_read() const { return rows_read_; }

  std::int64_t signal_at = 0, fail_at = 0, disturb_at = 0;
  std::function<void()> disturb;
  double factor = 1;  // of A
  std::string identity_ = "made of integers";

 private:
  ExactSource source_{kRows, kCols, kRhs, ElementType::kFloat64};
  std::int64_t reads_ = 0, rows_read_ = 0;
};

struct Outcome {
  int code = 0;
  std::string message;
  std::vector<double> x;
  std::int64_t passes = 0, rows_read = 0, bytes_read = 0;
  std::optional<SketchSpec> spec;
  std::vector<std::string> warnings;
  std::string trouble;  // of writing
  StoredSketch sketch;  // of run_sketch
};

class World {
 public:
  explicit World(ResidencyChoice residency) {
    RunOptions options = run_options();
    options.residency = residency;
    backend_ = make_backend(options, comm, timer_);
    std::string path;
    if (comm.is_root()) {
      path = (std::filesystem::temp_directory_path() / fmt::format("tallsketch-{}.ckpt.h5", ::getpid())).string();
      std::filesystem::remove(path);
    }
    path_ = comm.broadcast(path);
  }
  ~World() {
    if (comm.is_root()) std::filesystem::remove(path_);
  }

  const std::string& path() const { return path_; }
  bool has_checkpoint() const { return comm.max(comm.is_root() && std::filesystem::exists(path_) ? 1 : 0) == 1; }

  /// every < 0: without a checkpoint
  /// fails  whether normal_begin fails on this rank
  Outcome run(InterruptedSource& source, const SketchOptions& sketch, const MethodOptions& method, double every,
              bool resume, const MadeSketch* made = nullptr, bool fails = false) {
    FailingBackend backend(*backend_, fails);
    return saved(source, sketch, method, every, resume,
                 [&](const SolveContext& context, Outcome& outcome, Report& report) {
                   outcome.x = solve(sketch, method, kChunkRows, source, backend, context, report, nullptr, made).x;
                 });
  }

  /// The sketch of all rows. finish  false: its file cannot be written
  Outcome run_sketch(InterruptedSource& source, const SketchOptions& sketch, double every, bool resume,
                     bool finish = true) {
    return saved(
        source, sketch, {}, every, resume,
        [&](const SolveContext& context, Outcome& outcome, Report& report) {
          outcome.sketch = sketch_rows_of(sketch, {}, kChunkRows, source, *backend_, context, report);
        },
        finish);
  }

  Backend& backend() { return *backend_; }

  Communicator comm{MPI_COMM_WORLD};

 private:
  Outcome saved(InterruptedSource& source, const SketchOptions& sketch, const MethodOptions& method, double every,
                bool resume, const std::function<void(const SolveContext&, Outcome&, Report&)>& work,
                bool finish = true) {
    end_cleanly_on_signals(false);
    Watchdog watchdog(60, "test");
    Progress silent(nullptr);
    Outcome outcome;
    Report report;
    std::optional<CheckpointKeeper> keeper;
    try {
      if (every >= 0) {
        keeper.emplace(CheckpointOptions{path_, every, resume}, comm, silent);
        keeper->start(run_fields(source, sketch, method), sketch);
      }
      const SolveContext context{comm, watchdog, silent, timer_, keeper ? &*keeper : nullptr};
      work(context, outcome, report);
      if (keeper && comm.is_root() && finish) keeper->finish();
    } catch (const Error& e) {
      outcome.code = e.exit_code();
      outcome.message = e.what();
      if (!e.agreed()) outcome.code = -1;
    }
    outcome.passes = report.solver.passes;
    outcome.rows_read = source.rows_read();
    outcome.bytes_read = report.bytes_read;
    outcome.spec = report.sketch;
    outcome.warnings = report.warnings;
    if (keeper) outcome.trouble = keeper->take_trouble();
    return outcome;
  }

  PhaseTimer timer_;
  std::unique_ptr<Backend> backend_;
  std::string path_;
};

struct Kind {
  const char* name;
  SketchOptions sketch;
  MethodOptions method;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all(4);
  all[0].name = "sketch";
  all[0].method.preconditioner = PreconditionerChoice::kSketch;
  all[1].name = "gram";
  all[1].method.preconditioner = PreconditionerChoice::kGram;
  all[2].name = "one pass, fp64";
  all[2].method.method = SolveMethod::kSketchSolve;
  all[2].sketch.precision = SketchPrecision::kFp64;
  all[3].name = "blockperm";
  all[3].sketch.family = SketchFamily::kBlockPerm;
  all[3].sketch.input_blocks = InputBlocks::kContiguous;
  return all;
}

/// Not rank 0, if there is another, and one that has rows.
int interrupted_rank(const Communicator& comm) { return std::min(1, comm.size() - 1); }

/// Some residencies of a backend.
std::vector<ResidencyChoice> residencies() {
  if (on_gpus()) return {ResidencyChoice::kFile, ResidencyChoice::kHost, ResidencyChoice::kDevice};
  return {ResidencyChoice::kFile, ResidencyChoice::kHost};
}

}  // namespace

TEST_CASE("Stopped at any read of any rank, and gone on with, a run ends at the x of one that was not stopped") {
  for (const ResidencyChoice residency : residencies()) {
    World world(residency);
    for (const Kind& kind : kinds()) {
      CAPTURE(kind.name);
      InterruptedSource whole;
      const Outcome wanted = world.run(whole, kind.sketch, kind.method, -1, false);
      MPI_REQUIRE(wanted.code == 0);
      int stops = 0;
      for (const double every : {0.0, 1e6}) {
        Outcome outcome;
        bool resume = false;
        for (int attempt = 0; attempt < 60; ++attempt) {
          InterruptedSource source;
          // Another rank each time; later and later, so that every run gets further.
          const bool mine = world.comm.rank() == attempt % world.comm.size();
          source.signal_at = mine ? 1 + (7 * attempt) % 11 + 15 * attempt : 0;
          outcome = world.run(source, kind.sketch, kind.method, every, resume);
          if (outcome.code == 0) break;
          stops += 1;
          MPI_REQUIRE(outcome.code == 75);
          MPI_REQUIRE(outcome.message.find("stopped by SIGTERM: checkpoint written to '" + world.path()) !=
                      std::string::npos);
          MPI_REQUIRE(world.has_checkpoint());
          resume = true;
        }
        MPI_REQUIRE(outcome.code == 0);
        MPI_REQUIRE(outcome.x == wanted.x);
        const bool all_passes = outcome.passes == wanted.passes || kind.method.method == SolveMethod::kSketchSolve;
        MPI_REQUIRE(!world.comm.is_root() || all_passes);
        MPI_REQUIRE(!world.has_checkpoint());
      }
      MPI_REQUIRE(stops >= 2);
    }
  }
}

TEST_CASE("Rows that are done are not read again where none are kept") {
  World world(ResidencyChoice::kFile);
  MethodOptions one_pass;
  one_pass.method = SolveMethod::kSketchSolve;
  InterruptedSource first, second;
  first.signal_at = world.comm.is_root() ? 4 : 0;
  const Outcome stopped = world.run(first, {}, one_pass, 1e6, false);
  MPI_REQUIRE(stopped.code == 75);
  const Outcome done = world.run(second, {}, one_pass, 1e6, true);
  MPI_REQUIRE(done.code == 0);
  std::int64_t rows = stopped.rows_read + done.rows_read;
  world.comm.sum(&rows, 1);
  MPI_REQUIRE(rows == kRows);
  MPI_REQUIRE(!world.comm.is_root() || stopped.rows_read < 9 * kChunkRows);  // at once: what was on its way
  std::int64_t rest = done.rows_read;
  world.comm.sum(&rest, 1);
  MPI_REQUIRE(rest < kRows && done.bytes_read == rest * kCols * 8);
}

TEST_CASE("A run that began with a sketch file goes on with the S of that file, through refinement") {
  World world(ResidencyChoice::kFile);
  std::vector<SketchOptions> files(2);
  files[0].zeta = 3;
  files[0].seed = 7;
  files[0].hash = SketchHash::kIndependent;
  files[0].sketch_rows = 100;
  files[1].family = SketchFamily::kBlockPerm;
  files[1].block_rows = 32;
  files[1].kappa = 3;
  files[1].seed = 5;
  files[1].sketch_rows = 96;
  for (const SketchOptions& file : files) {
    InterruptedSource source, whole;
    MadeSketch made{world.run_sketch(source, file, -1, false).sketch, "s.h5"};
    const Outcome wanted = world.run(whole, {}, {}, -1, false, &made);
    MPI_REQUIRE(wanted.code == 0);
    for (const std::int64_t at : {4, 50, 90}) {  // passes of the refinement: the sketch is read from its file
      InterruptedSource first, second;
      first.signal_at = world.comm.rank() == interrupted_rank(world.comm) ? 1 + (at - 1) / world.comm.size() : 0;
      MPI_REQUIRE(world.run(first, {}, {}, 1e6, false, &made).code == 75);
      const Outcome done = world.run(second, {}, {}, 1e6, true, &made);
      MPI_REQUIRE(done.code == 0);
      MPI_REQUIRE(done.x == wanted.x);
      MPI_REQUIRE(!world.comm.is_root() || done.passes == wanted.passes);
      MPI_REQUIRE(done.spec->zeta == wanted.spec->zeta && done.spec->seed == file.seed);
      MPI_REQUIRE(done.spec->d == wanted.spec->d && done.spec->family == file.family && done.spec->hash == file.hash);
    }
  }
}

TEST_CASE("What is added to a sketch has its size") {
  World world(ResidencyChoice::kFile);
  InterruptedSource source;
  SketchOptions options;
  options.sketch_rows = 64;
  const StoredSketch sketch = world.run_sketch(source, options, -1, false).sketch;
  const auto kind_of = [&](std::int64_t change) {
    try {
      world.backend().add_partial(
          std::vector<double>(static_cast<std::size_t>(sketch.spec.d * (kCols + kRhs) + change)));
    } catch (const Error& e) {
      return e.exit_code();
    }
    return 0;
  };
  MPI_REQUIRE(kind_of(0) == 0);
  MPI_REQUIRE(kind_of(-1) == 1 && kind_of(1) == 1);
}

TEST_CASE("A complete sketch is saved before its file is written, and gone on with warns as before and reads nothing") {
  World world(ResidencyChoice::kFile);
  InterruptedSource whole, first, second;
  whole.factor = first.factor = second.factor = 0x1p200;  // beyond FP32: columns are scaled, with a warning
  const Outcome wanted = world.run_sketch(whole, {}, -1, false);
  MPI_REQUIRE(wanted.code == 0 && wanted.warnings.size() == 1);
  MPI_REQUIRE(world.run_sketch(first, {}, 1e6, false, false).code == 0);
  MPI_REQUIRE(world.has_checkpoint());
  const Outcome again = world.run_sketch(second, {}, 1e6, true);
  MPI_REQUIRE(again.code == 0 && again.rows_read == 0 && again.bytes_read == 0);
  MPI_REQUIRE(again.sketch.sketch == wanted.sketch.sketch);
  MPI_REQUIRE(again.sketch.b_squares == wanted.sketch.b_squares && again.sketch.exponents == wanted.sketch.exponents);
  MPI_REQUIRE(again.warnings == wanted.warnings);
  MPI_REQUIRE(!world.has_checkpoint());
}

TEST_CASE("A checkpoint that was due and cannot be written is told once; one that a signal asks for ends the run") {
  World world(ResidencyChoice::kFile);
  const auto in_the_way = [&] { std::filesystem::create_directory(world.path()); };
  for (const Kind& kind : kinds()) {
    InterruptedSource whole, blocked, stopped;
    const Outcome wanted = world.run(whole, kind.sketch, kind.method, -1, false);
    for (InterruptedSource* source : {&blocked, &stopped}) {
      source->disturb = in_the_way;
      source->disturb_at = world.comm.is_root() ? 1 : 0;  // no checkpoint is there yet
    }
    const Outcome done = world.run(blocked, kind.sketch, kind.method, 0, false);
    MPI_REQUIRE(done.code == 0);
    MPI_REQUIRE(done.x == wanted.x);
    MPI_REQUIRE(!world.comm.is_root() || done.trouble.find(world.path()) != std::string::npos);
    if (world.comm.is_root()) std::filesystem::remove(world.path());
    world.comm.barrier();
    stopped.signal_at = world.comm.rank() == interrupted_rank(world.comm) ? 5 : 0;
    const Outcome failed = world.run(stopped, kind.sketch, kind.method, 1e6, false);
    MPI_REQUIRE(failed.code == 9);
    MPI_REQUIRE(failed.message.find(world.path()) != std::string::npos);
    if (world.comm.is_root()) std::filesystem::remove(world.path());
    world.comm.barrier();
  }
}

TEST_CASE("Of what lies beside a checkpoint only what AtomicFile left is removed") {
  World world(ResidencyChoice::kFile);
  const std::vector<std::pair<std::string, bool>> names = {
      {".tmp.1.2", false}, {".tmp.123.0", false}, {".tmp.notes", true}, {".tmp.1", true},   {".tmp.1.2.3", true},
      {".tmp.1.2x", true}, {".tmp..2", true},     {".tmp.1.", true},    {"2.tmp.1.2", true}};
  if (world.comm.is_root()) {
    for (const auto& [name, stays] : names) std::ofstream(world.path() + name) << "x";
  }
  world.comm.barrier();
  InterruptedSource source;
  MethodOptions one_pass;
  one_pass.method = SolveMethod::kSketchSolve;
  MPI_REQUIRE(world.run(source, {}, one_pass, 1e6, false).code == 0);
  for (const auto& [name, stays] : names) {
    MPI_REQUIRE(!world.comm.is_root() || std::filesystem::exists(world.path() + name) == stays);
    if (world.comm.is_root()) std::filesystem::remove(world.path() + name);
  }
}

TEST_CASE("A rank that fails in a pass of the refinement, or before it, takes the others with it") {
  World world(ResidencyChoice::kFile);
  MethodOptions method;
  method.preconditioner = PreconditionerChoice::kSketch;
  for (const double every : {-1.0, 0.0, 1e6}) {
    InterruptedSource whole;
    MPI_REQUIRE(world.run(whole, {}, method, -1, false).code == 0);
    const bool mine = world.comm.rank() == interrupted_rank(world.comm);
    const std::int64_t one_pass = whole.reads() / world.run(whole, {}, method, -1, false).passes;
    for (const std::int64_t at : {one_pass + 1, one_pass + 3, 2 * one_pass}) {
      InterruptedSource source;
      source.fail_at = mine ? at : 0;
      const Outcome failed = world.run(source, {}, method, every, false);
      MPI_REQUIRE(failed.code == 3);
      MPI_REQUIRE(failed.message.find("this read fails") != std::string::npos);
      if (world.comm.is_root()) std::filesystem::remove(world.path());
      world.comm.barrier();
    }
    InterruptedSource source;
    const Outcome failed = world.run(source, {}, method, every, false, nullptr, mine);
    MPI_REQUIRE(failed.code == 7);
    MPI_REQUIRE(failed.message.find("no memory for a pass") != std::string::npos);
    if (world.comm.is_root()) std::filesystem::remove(world.path());
    world.comm.barrier();
  }
}

TEST_CASE("A rank that fails in the middle of a pass takes the others with it, and the last checkpoint stays") {
  World world(ResidencyChoice::kFile);
  for (const Kind& kind : kinds()) {
    InterruptedSource whole;
    const Outcome wanted = world.run(whole, kind.sketch, kind.method, -1, false);
    InterruptedSource source;
    source.fail_at = world.comm.rank() == interrupted_rank(world.comm) ? 4 : 0;
    const Outcome failed = world.run(source, kind.sketch, kind.method, 0, false);
    MPI_REQUIRE(failed.code == 3);
    MPI_REQUIRE(failed.message.find("this read fails") != std::string::npos);
    InterruptedSource again;
    const Outcome done = world.run(again, kind.sketch, kind.method, 0, world.has_checkpoint());
    MPI_REQUIRE(done.code == 0);
    MPI_REQUIRE(done.x == wanted.x);
  }
}

TEST_CASE("A run goes on only as what it was, and says what differs") {
  World world(ResidencyChoice::kFile);
  InterruptedSource source;
  source.signal_at = world.comm.is_root() ? 3 : 0;
  MethodOptions method;
  method.method = SolveMethod::kSketchSolve;
  MPI_REQUIRE(world.run(source, {}, method, 1e6, false).code == 75);
  const auto refused = [&](const std::function<void(SketchOptions&, MethodOptions&, InterruptedSource&)>& change,
                           bool resume = true) {
    SketchOptions sketch;
    MethodOptions other = method;
    InterruptedSource changed;
    change(sketch, other, changed);
    return world.run(changed, sketch, other, 1e6, resume);
  };
  Outcome outcome = refused([](auto&, auto&, auto& s) { s.identity_ = "made of other integers"; });
  MPI_REQUIRE(outcome.code == 3);
  MPI_REQUIRE(outcome.message.find("'made of integers'") != std::string::npos &&
              outcome.message.find("'made of other integers'") != std::string::npos);
  outcome = refused([](auto& o, auto&, auto&) { o.seed = 9; });
  MPI_REQUIRE(outcome.code == 2);
  MPI_REQUIRE(outcome.message.find("--seed was '0' there, and is '9' now") != std::string::npos);
  outcome = refused([](auto&, auto& m, auto&) { m.method = SolveMethod::kRefine; });
  MPI_REQUIRE(outcome.code == 2 && outcome.message.find("--method") != std::string::npos);
  outcome = refused([](auto&, auto&, auto&) {}, false);
  MPI_REQUIRE(outcome.code == 2 && outcome.message.find("--resume") != std::string::npos);
  outcome = refused([](auto& o, auto&, auto&) { o.precision = SketchPrecision::kFp16; });
  MPI_REQUIRE(outcome.code == 2 && outcome.message.find("fp16") != std::string::npos);
  // And with a byte changed, or cut off, it is no checkpoint.
  const auto damage = [&](const std::function<void(std::string&)>& change) {
    if (world.comm.is_root()) {
      std::ifstream in(world.path(), std::ios::binary);
      std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      change(bytes);
      std::ofstream(world.path(), std::ios::binary) << bytes;
    }
    return refused([](auto&, auto&, auto&) {});
  };
  outcome = damage([](std::string& bytes) { bytes[bytes.find("\"run\"") + 1] = 'x'; });
  MPI_REQUIRE(outcome.code == 3 && outcome.message.find(world.path()) != std::string::npos);
  outcome = damage([](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  MPI_REQUIRE(outcome.code == 3 && outcome.message.find(world.path()) != std::string::npos);
}
