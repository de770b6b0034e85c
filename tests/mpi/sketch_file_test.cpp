// Sketches of parts of a matrix, on the host (mpi.sketch_file) and on GPUs (cuda.sketch_file): together they are the sketch
// of the whole, bit for bit, wherever the parts are cut and at any number of ranks; and what is solved from a stored sketch
// is what the run that made it would have found.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/from_sketch.h"
#include "src/progress.h"
#include "src/row_ranges.h"
#include "src/sketching.h"
#include "src/solver.h"
#include "src/synthetic_source.h"
#include "src/watchdog.h"
#include "tests/support/exact_source.h"
#include "tests/support/mpi_check.h"
#include "tests/support/oracle.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 2311, kCols = 7, kRhs = 2;

/// Rows [begin, end) of another source, as a source of their own: what a shard's file is.
class PartOfSource final : public RowSource {
 public:
  PartOfSource(RowSource& whole, RowRange rows) : whole_(whole), rows_(rows), shape_(whole.shape()) {
    shape_.m = rows.size();
  }
  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return whole_.info(); }
  void read(RowRange rows, void* a, double* b) override {
    whole_.read({rows.begin + rows_.begin, rows.end + rows_.begin}, a, b);
  }

 private:
  RowSource& whole_;
  RowRange rows_;
  ProblemShape shape_;
};

struct World {
  Communicator comm{MPI_COMM_WORLD};
  PhaseTimer timer;
  Watchdog watchdog{60, "test"};
  Progress silent{nullptr};
  std::unique_ptr<Backend> backend = make_backend(run_options(), comm, timer);
  SolveContext context{comm, watchdog, silent, timer};

  StoredSketch sketch(RowSource& source, const SketchOptions& options, MatrixPlace place, std::uint64_t chunk_rows) {
    Report report;
    return sketch_rows_of(options, place, chunk_rows, source, *backend, context, report);
  }
};

std::vector<SketchOptions> kinds_of_sketch() {
  std::vector<SketchOptions> kinds(6);
  kinds[0].sketch_rows = 64;
  kinds[1].hash = SketchHash::kIndependent;
  kinds[1].sketch_rows = 64;
  kinds[2].precision = SketchPrecision::kFp64;  // and the d of a file by default
  for (const int k : {3, 4, 5}) {
    kinds[k].family = SketchFamily::kBlockPerm;
    kinds[k].block_rows = 32;
    kinds[k].sketch_rows = 128;
  }
  kinds[4].hash = SketchHash::kIndependent;
  kinds[5].input_blocks = InputBlocks::kContiguous;
  return kinds;
}

}  // namespace

TEST_CASE("Sketches of shards, cut inside batches, add up to the sketch of the whole bit for bit") {
  World world;
  ExactSource whole(kRows, kCols, kRhs, ElementType::kFloat32);
  for (const SketchOptions& options : kinds_of_sketch()) {
    const StoredSketch all = world.sketch(whole, options, {0, 0}, 0);
    for (const std::uint64_t chunk_rows : {97, 1000}) {
      StoredSketch sum;
      bool first = true;
      // A first row, a border that no batch size divides, a shard wider than tall, one row, and the rest.
      for (const RowRange rows :
           {RowRange{1, 700}, RowRange{0, 1}, RowRange{703, 1536}, RowRange{700, 703}, RowRange{1536, kRows}}) {
        PartOfSource part(whole, rows);
        const StoredSketch stored = world.sketch(part, options, {rows.begin, kRows}, chunk_rows);
        world.comm.together([&] {
          if (first) {
            sum = stored;
          } else {
            add(stored, "part", "sum", sum);
          }
        });
        first = false;
      }
      MPI_REQUIRE(sum.rows.size() == 1 && sum.rows[0].begin == 0 && sum.rows[0].end == kRows);
      MPI_REQUIRE(sum.b_squares == all.b_squares);
      MPI_REQUIRE(sum.sketch == all.sketch);
    }
    // And that is S [A | b] as the rule says it.
    std::vector<float> a(static_cast<std::size_t>(kRows * kCols));
    std::vector<double> b(static_cast<std::size_t>(kRows * kRhs));
    whole.read({0, kRows}, a.data(), b.data());
    const auto oracle = oracle_sketch(all.spec, {a.data(), kRows, kCols, kCols, ElementType::kFloat32, 0},
                                      {b.data(), kRows, kRhs, kRhs, ElementType::kFloat64, 0});
    MPI_REQUIRE(!world.comm.is_root() || all.sketch == oracle);
  }
}

TEST_CASE("Sketches of shards far down an endless matrix are of their global rows") {
  World world;
  ExactSource endless(std::int64_t{1} << 50, kCols, 1, ElementType::kFloat64);
  const std::int64_t first = (std::int64_t{1} << 40) + 12345;
  PartOfSource part(endless, {first, first + 900}), lower(endless, {first, first + 450}),
      upper(endless, {first + 450, first + 900});
  SketchOptions options;
  options.sketch_rows = 64;
  const StoredSketch all = world.sketch(part, options, {first, 0}, 0);
  StoredSketch sum = world.sketch(lower, options, {first, 0}, 100);
  add(world.sketch(upper, options, {first + 450, 0}, 100), "upper", "lower", sum);
  MPI_REQUIRE(sum.sketch == all.sketch);
  const StoredSketch elsewhere = world.sketch(part, options, {first + 1, 0}, 0);
  MPI_REQUIRE(!world.comm.is_root() || elsewhere.sketch != all.sketch);
}

TEST_CASE("By default shards of any length have the same sketch, and rows beyond the matrix are refused") {
  World world;
  ExactSource small(3, kCols, 1, ElementType::kFloat32), large(5000, kCols, 1, ElementType::kFloat32);
  const StoredSketch one = world.sketch(small, {}, {5000, 0}, 0), two = world.sketch(large, {}, {0, 0}, 0);
  MPI_REQUIRE(one.spec.d == two.spec.d && one.check_rows == two.check_rows);
  bool refused = false;
  try {
    world.sketch(small, {}, {4998, 5000}, 0);
  } catch (const Error& e) {
    refused = e.kind() == ErrorKind::kUsage && std::string(e.what()).find("[4998, 5001)") != std::string::npos;
  }
  MPI_REQUIRE(refused);
  MPI_REQUIRE(world.sketch(small, {}, {4997, 5000}, 0).rows[0].end == 5000);
}

TEST_CASE("x of a stored sketch alone is bit for bit that of the sketch-solve that makes the same sketch") {
  World world;
  ExactSource source(kRows, kCols, kRhs, ElementType::kFloat32);
  for (SketchOptions options : kinds_of_sketch()) {
    MethodOptions method;
    method.method = SolveMethod::kSketchSolve;
    MadeSketch made{world.sketch(source, options, {0, 0}, 0), "s.h5"};
    Report from, direct;
    const Solution x = solve_from_sketch(made, {}, method, *world.backend, world.context, from);
    options = options_of(made.sketch);  // whose d does not depend on m
    const Solution same = solve(options, method, 0, source, *world.backend, world.context, direct);
    MPI_REQUIRE(x.x == same.x);
    MPI_REQUIRE(from.solver.passes == 0 && direct.solver.passes == 1 && from.bytes_read == 0);
    MPI_REQUIRE(from.solver.residual_norm == direct.solver.residual_norm);
    MPI_REQUIRE(from.solver.rank == direct.solver.rank);
  }
}

TEST_CASE("Refinement begins with a stored sketch and ends at the same x; another b is found out") {
  World world;
  ExactSource source(kRows, kCols, kRhs, ElementType::kFloat64);
  SketchOptions options;
  options.sketch_rows = 64;
  MadeSketch made{world.sketch(source, options, {0, 0}, 0), "s.h5"};
  MethodOptions method;
  Report from, direct;
  const Solution x = solve({}, method, 0, source, *world.backend, world.context, from, nullptr, &made);
  const Solution same = solve(options, method, 0, source, *world.backend, world.context, direct);
  MPI_REQUIRE(!world.comm.is_root() || from.solver.converged);
  MPI_REQUIRE(x.x == same.x);
  MPI_REQUIRE(from.solver.passes == direct.solver.passes);  // these rows are kept: read once, and sketched before

  bool refused = false;
  made.sketch.b_squares[1] *= 1.001;
  try {
    Report report;
    solve({}, method, 0, source, *world.backend, world.context, report, nullptr, &made);
  } catch (const Error& e) {
    refused = e.kind() == ErrorKind::kInput && std::string(e.what()).find("another b") != std::string::npos;
  }
  MPI_REQUIRE(refused);
}

TEST_CASE("A sketch of another b is found out by the first pass of the refinement, where no rows are kept") {
  World world;
  RunOptions streaming = run_options();
  streaming.residency = ResidencyChoice::kFile;
  const std::unique_ptr<Backend> backend = make_backend(streaming, world.comm, world.timer);
  ExactSource source(kRows, kCols, kRhs, ElementType::kFloat64);
  MadeSketch made{world.sketch(source, {}, {0, 0}, 0), "s.h5"};
  const auto refined = [&](Report& report) {
    solve({}, {}, 100, source, *backend, world.context, report, nullptr, &made);
  };
  Report right;
  refined(right);
  MPI_REQUIRE(!world.comm.is_root() || right.solver.converged);
  for (const double factor : {1 - 1e-5, 1 + 1e-5, 0.0}) {
    const double was = made.sketch.b_squares[1];
    made.sketch.b_squares[1] *= factor;
    Report wrong;
    bool refused = false;
    try {
      refined(wrong);
    } catch (const Error& e) {
      refused = e.agreed() && e.kind() == ErrorKind::kInput &&
                std::string(e.what()).find("'s.h5' is the sketch of another b") != std::string::npos;
    }
    MPI_REQUIRE(refused);
    MPI_REQUIRE(!wrong.solver.converged);
    made.sketch.b_squares[1] = was;
  }
}

TEST_CASE("A stored sketch that does not resolve the condition is followed by a finer one, where A is there") {
  World world;
  SyntheticProblem problem;
  problem.m = 3000;
  problem.n = 10;
  problem.kind = SyntheticKind::kIllConditioned;
  problem.cond = 1e9;
  problem.type = ElementType::kFloat64;
  SyntheticSource source(problem);
  MadeSketch made{world.sketch(source, {}, {0, 0}, 0), "s.h5"};
  Report report;
  solve({}, {}, 0, source, *world.backend, world.context, report, nullptr, &made);
  MPI_REQUIRE(!world.comm.is_root() || report.solver.converged);
  MPI_REQUIRE(report.sketch->precision == SketchPrecision::kFp64);
}
