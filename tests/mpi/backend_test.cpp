// The backend contract, on the host (mpi.backend) and on GPUs (cuda.backend): the same sketch bit for bit as the dense
// oracle at any number of ranks and any chunking, and x as FP64 LAPACK computes it from that sketch.
#include <cmath>
#include <memory>
#include <vector>

#include <lapacke.h>

#include "kernels/sketch_rule.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/row_pass.h"
#include "src/solver.h"
#include "src/synthetic_source.h"
#include "src/watchdog.h"
#include "tests/support/error_kind.h"
#include "tests/support/exact_source.h"
#include "tests/support/mpi_check.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;

namespace {

constexpr MethodOptions kSketchSolve{.method = SolveMethod::kSketchSolve};

/// The reduced sketch of the source on every rank, read in chunks of chunk_rows rows.
std::vector<double> sketch_by_backend(RowSource& source, const SketchSpec& spec, std::int64_t chunk_rows,
                                      Backend& backend, const Communicator& comm, bool resident,
                                      ScalingChoice scaling = ScalingChoice::kAuto,
                                      ReducePrecision reduce = ReducePrecision::kFp32) {
  PlanLimits limits;
  limits.chunk_rows = chunk_rows;
  Plan plan = make_plan(source.shape(), spec, comm.size(), limits);
  const Residency kept = on_gpus() ? Residency::kDevice : Residency::kHost;
  plan.residency = resident ? kept : Residency::kFile;
  const RowRange mine = plan.rank_rows[static_cast<std::size_t>(comm.rank())];
  backend.begin(
      {.spec = spec, .shape = source.shape(), .plan = plan, .rows = mine, .scaling = scaling, .reduce = reduce});
  for_each_chunk(mine, plan.chunk_rows, [&](RowRange rows) {
    ChunkBuffer& chunk = backend.next_buffer(rows);
    source.read(rows, chunk.a, chunk.b);
    backend.upload(chunk);
  });
  backend.exchange();
  backend.sketch();
  backend.reduce();
  return backend.sketch_copy();
}

std::vector<double> oracle_of(RowSource& source, const SketchSpec& spec) {
  const ProblemShape& shape = source.shape();
  std::vector<char> a(static_cast<std::size_t>(shape.m * shape.n * element_size(shape.a_type)));
  std::vector<double> b(static_cast<std::size_t>(shape.m * shape.r));
  source.read({0, shape.m}, a.data(), b.data());
  return oracle_sketch(spec, {a.data(), shape.m, shape.n, shape.n, shape.a_type, 0},
                       {b.data(), shape.m, shape.r, shape.r, ElementType::kFloat64, 0});
}

struct World {
  Communicator comm{MPI_COMM_WORLD};
  PhaseTimer timer;
  std::unique_ptr<Backend> backend = make_backend(run_options(), comm, timer);
};

/// x of one pass, empty on all ranks but the first.
std::vector<double> x_of(World& world, RowSource& source, const SketchOptions& options, Report& report) {
  Watchdog watchdog(60, "test");
  Progress silent(nullptr);
  const SolveContext context{world.comm, watchdog, silent, world.timer};
  return solve(options, kSketchSolve, 400, source, *world.backend, context, report).x;
}

/// Exit code and message of a solve that fails; 0 and nothing if it does not.
std::pair<int, std::string> failure_of(World& world, RowSource& source, const SketchOptions& options = {}) {
  Report report;
  return error_of([&] { x_of(world, source, options, report); });
}

/// float64 or float32 rows of a source whose columns are multiplied by powers of two (n + r).
class ColumnsTimesPowers final : public RowSource {
 public:
  ColumnsTimesPowers(RowSource& source, std::vector<int> exponents)
      : source_(source), exponents_(std::move(exponents)) {}
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  void read(RowRange rows, void* a, double* b) override {
    source_.read(rows, a, b);
    const auto n = static_cast<std::size_t>(shape().n), cols = exponents_.size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size()); ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (shape().a_type == ElementType::kFloat64) {
          double& value = static_cast<double*>(a)[i * n + j];
          value = std::ldexp(value, exponents_[j]);
        } else {
          float& value = static_cast<float*>(a)[i * n + j];
          value = std::ldexp(value, exponents_[j]);
        }
      }
      for (std::size_t k = n; k < cols; ++k) {
        b[i * (cols - n) + k - n] = std::ldexp(b[i * (cols - n) + k - n], exponents_[k]);
      }
    }
  }

 private:
  RowSource& source_;
  std::vector<int> exponents_;
};

}  // namespace

TEST_CASE("A backend's sketch of integers equals the oracle bit for bit at any chunking and residency") {
  World world;
  for (const auto& [m, n, r] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{5003, 37, 1},
                                {3, 2, 1},
                                {1537, 1, 2},
                                {2049, 64, 3},
                                {513, 129, 1}}) {
    for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
      for (const int zeta : {1, 4, 9}) {
        const std::int64_t d = hash == SketchHash::kPermuted ? zeta * ((2 * n + zeta) / zeta + 1) : 2 * n + zeta + 1;
        const SketchSpec spec = make_spec(hash, d, zeta);
        ExactSource source(m, n, r, ElementType::kFloat32);
        const std::vector<double> oracle = oracle_of(source, spec);
        for (const std::int64_t chunk : {std::int64_t{1000000}, std::int64_t{777}}) {
          for (const bool resident : {false, true}) {
            INFO("m " << m << " n " << n << " r " << r << " zeta " << zeta << " d " << d << " chunk " << chunk);
            MPI_REQUIRE(sketch_by_backend(source, spec, chunk, *world.backend, world.comm, resident) == oracle);
          }
        }
      }
    }
  }
}

TEST_CASE(
    "BlockPerm is the same sketch at any number of ranks and any chunking, contiguous blocks and cut batches too") {
  World world;
  ExactSource source(5003, 37, 2, ElementType::kFloat32);
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    for (const std::int64_t total_rows : {std::int64_t{0}, std::int64_t{5003}}) {
      for (const auto& [kappa, block_nnz] : {std::pair{2, 2}, {3, 1}, {1, 4}}) {
        const SketchSpec spec = make_block_spec(hash, 256, 64, kappa, block_nnz, total_rows);
        const std::vector<double> oracle = oracle_of(source, spec);
        for (const std::int64_t chunk : {std::int64_t{1000000}, std::int64_t{777}}) {
          INFO("hash " << static_cast<int>(hash) << " total " << total_rows << " kappa " << kappa << " chunk "
                       << chunk);
          MPI_REQUIRE(sketch_by_backend(source, spec, chunk, *world.backend, world.comm, on_gpus()) == oracle);
        }
      }
    }
  }
}

TEST_CASE("A backend reads float64 and float16 rows as it reads float32 rows, resident or not") {
  World world;
  // The strip engine reads halves of permuted sketches; the independent hash makes it convert them.
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 64, 4);
    ExactSource narrow(3001, 21, 1, ElementType::kFloat32);
    const std::vector<double> oracle = oracle_of(narrow, spec);
    for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat16}) {
      ExactSource source(3001, 21, 1, type);
      for (const bool resident : {false, true}) {
        INFO("type " << static_cast<int>(type) << " hash " << static_cast<int>(hash) << " resident " << resident);
        MPI_REQUIRE(sketch_by_backend(source, spec, 400, *world.backend, world.comm, resident) == oracle);
      }
    }
  }
}

TEST_CASE("An FP64 sketch of integers beyond FP32 equals the oracle bit for bit, and that of narrower types too") {
  World world;
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    SketchSpec spec = make_spec(hash, 96, 4);
    for (const auto& [n, r] : {std::pair<std::int64_t, std::int64_t>{37, 1}, {5, 3}, {64, 9}}) {
      WideExactSource source(3001, n, r);
      const std::vector<double> oracle = oracle_of(source, spec);
      for (const std::int64_t chunk : {std::int64_t{100000}, std::int64_t{777}}) {
        for (const bool resident : {false, true}) {
          INFO("n " << n << " r " << r << " chunk " << chunk << " resident " << resident);
          spec.precision = SketchPrecision::kFp64;
          MPI_REQUIRE(sketch_by_backend(source, spec, chunk, *world.backend, world.comm, resident) == oracle);
          spec.precision = SketchPrecision::kFp32;
          MPI_REQUIRE(sketch_by_backend(source, spec, chunk, *world.backend, world.comm, resident) != oracle);
        }
      }
    }
    spec.precision = SketchPrecision::kFp64;
    for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
      ExactSource source(3001, 21, 1, type);
      INFO("type " << static_cast<int>(type));
      MPI_REQUIRE(sketch_by_backend(source, spec, 400, *world.backend, world.comm, on_gpus()) ==
                  oracle_of(source, spec));
    }
  }
}

TEST_CASE("More ranks than batches leave ranks without rows and the sketch unchanged") {
  World world;
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 16, 4);  // T = 512: all rows on rank 0
  ExactSource source(3, 2, 1, ElementType::kFloat32);
  MPI_REQUIRE(sketch_by_backend(source, spec, 2, *world.backend, world.comm, false) == oracle_of(source, spec));
}

TEST_CASE("The sketch of real numbers is the oracle's to rounding, and equal bit for bit in a second run on the host") {
  World world;
  SyntheticSource source({.kind = SyntheticKind::kGaussian, .m = 20000, .n = 50, .seed = 5});
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  const std::vector<double> oracle = oracle_of(source, spec);
  const std::vector<double> first = sketch_by_backend(source, spec, 3000, *world.backend, world.comm, on_gpus());
  double worst = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) worst = std::max(worst, std::fabs(first[i] - oracle[i]));
  // A bucket sums m zeta / d = 625 numbers of size 1: sqrt(625) = 25, with 625 roundings of at most 2^-24 of it each.
  MPI_REQUIRE(worst < 625 * 25 * 6e-8);
  const std::vector<double> second = sketch_by_backend(source, spec, 3000, *world.backend, world.comm, on_gpus());
  if (!on_gpus()) MPI_REQUIRE(first == second);
}

TEST_CASE("x of a solve is the least-squares solution of the sketched problem in FP64, whatever the number of ranks") {
  World world;
  SyntheticSource source({.kind = SyntheticKind::kGaussian, .m = 9000, .n = 40, .noise = 0.5, .seed = 3});
  SketchOptions whole;
  whole.check_rows = 0;
  Report report;
  const std::vector<double> x = x_of(world, source, whole, report);
  MPI_REQUIRE(report.sketch && report.sketch->d == 128);
  const SketchSpec& spec = *report.sketch;
  std::vector<double> sketch = oracle_of(source, spec);  // (d, n + 1)
  const auto d = static_cast<int>(spec.d);
  std::vector<double> matrix, rhs;
  for (int i = 0; i < d; ++i) {
    matrix.insert(matrix.end(), sketch.begin() + i * 41, sketch.begin() + i * 41 + 40);
    rhs.push_back(sketch[static_cast<std::size_t>(i * 41 + 40)]);
  }
  const int info = LAPACKE_dgels(LAPACK_ROW_MAJOR, 'N', d, 40, 1, matrix.data(), 40, rhs.data(), 1);
  MPI_REQUIRE(info == 0);
  bool near = true;
  double error = 0, norm = 0;
  if (world.comm.is_root()) {
    for (std::size_t j = 0; j < 40; ++j) {
      error += (x[j] - rhs[j]) * (x[j] - rhs[j]);
      norm += rhs[j] * rhs[j];
    }
    // FP32 sketch and QR: a few units of 2^-24, times the condition (about 5) and sqrt(n).
    near = std::sqrt(error / norm) < 40 * 5 * 6e-8 * std::sqrt(40.0);
    INFO("relative difference " << std::sqrt(error / norm));
    CHECK(near);
  }
  MPI_REQUIRE(near);
  if (world.comm.is_root()) CHECK(*report.solver.rank == 40);
}

TEST_CASE("Dependent and zero columns end the solve with kind rank deficient on every rank, naming them") {
  World world;
  class Dependent final : public RowSource {
   public:
    Dependent() : shape_{4000, 4, 1, ElementType::kFloat32} { info_.a_name = "/A"; }
    const ProblemShape& shape() const override { return shape_; }
    const SourceInfo& info() const override { return info_; }
    void read(RowRange rows, void* a, double* b) override {
      auto* out = static_cast<float*>(a);
      for (std::int64_t i = 0; i < rows.size(); ++i) {
        const auto u = static_cast<float>(exact_entry(rows.begin + i, 0)),
                   v = static_cast<float>(exact_entry(rows.begin + i, 1));
        out[4 * i] = u;
        out[4 * i + 1] = 0;
        out[4 * i + 2] = v;
        out[4 * i + 3] = u - 2 * v;
        b[i] = exact_entry(rows.begin + i, 9);
      }
    }

   private:
    ProblemShape shape_;
    SourceInfo info_;
  } source;
  const auto [code, message] = failure_of(world, source);
  INFO(message);
  MPI_REQUIRE(code == 5);
  MPI_REQUIRE(message.find("rank 2 of 4") != std::string::npos);
  MPI_REQUIRE(message.find("columns 1, 3 ") != std::string::npos);
}

TEST_CASE("A NaN on the last rank ends the solve with kind non-finite on every rank, with dataset, count and place") {
  World world;
  class WithNan final : public RowSource {
   public:
    explicit WithNan(bool in_a) : shape_{3000, 5, 1, ElementType::kFloat32}, in_a_(in_a) {
      info_ = {{"f.h5"}, "/A", "/b", "float32", "made", "computed", {}};
    }
    const ProblemShape& shape() const override { return shape_; }
    const SourceInfo& info() const override { return info_; }
    void read(RowRange rows, void* a, double* b) override {
      auto* out = static_cast<float*>(a);
      for (std::int64_t i = 0; i < rows.size(); ++i) {
        const std::int64_t row = rows.begin + i;
        for (std::int64_t j = 0; j < 5; ++j) out[5 * i + j] = static_cast<float>(exact_entry(row, j));
        b[i] = 1;
        if (in_a_ && row >= 2998) out[5 * i + 3] = std::nanf("");
        if (!in_a_ && row == 7) b[i] = INFINITY;
      }
    }

   private:
    ProblemShape shape_;
    SourceInfo info_;
    bool in_a_;
  };
  for (const bool in_a : {true, false}) {
    WithNan source(in_a);
    const auto [code, message] = failure_of(world, source);
    INFO(message);
    MPI_REQUIRE(code == 4);
    MPI_REQUIRE(message.find(in_a ? "A has 2 non-finite" : "b has 1 non-finite") != std::string::npos);
    MPI_REQUIRE(message.find(in_a ? "row 2998, column 3" : "row 7, column 0") != std::string::npos);
  }
}

TEST_CASE("Columns beyond the range of the sketch are scaled by powers of two, which are undone on x exactly") {
  World world;
  // Integers: every sketch of them is exact, so that the scaled problem has the same bits after its columns are scaled.
  ExactSource wide(4001, 6, 2, ElementType::kFloat64), narrow(4001, 6, 2, ElementType::kFloat32);
  struct Case {
    RowSource& source;
    SketchPrecision precision;
    std::vector<int> exponents;  // of 6 columns of A and 2 of b
    int unscaled_code;           // exit code with --scaling none
  };
  for (const Case& c : {Case{wide, SketchPrecision::kFp32, {300, -300, 0, 5, -300, 300, 300, -300}, 4},
                        Case{wide, SketchPrecision::kFp32, {0, 0, 0, 0, 0, 0, 400, -400}, 4},
                        Case{wide, SketchPrecision::kFp32, {0, 0, -110, 0, 0, 0, 0, 0}, 0},
                        Case{wide, SketchPrecision::kFp64, {600, -600, 0, 0, 0, 0, 400, -400}, 0},
                        Case{narrow, SketchPrecision::kFp32, {124, -130, 0, 0, 0, 0, -200, 300}, 4}}) {
    SketchOptions options;
    options.precision = c.precision;
    Report plain_report, report;
    const std::vector<double> plain = x_of(world, c.source, options, plain_report);
    ColumnsTimesPowers scaled(c.source, c.exponents);
    const std::vector<double> x = x_of(world, scaled, options, report);
    bool same = true;
    for (std::size_t i = 0; i < plain.size(); ++i) {
      same = same && x[i] == std::ldexp(plain[i], c.exponents[6 + i % 2] - c.exponents[i / 2]);
    }
    INFO("exponent of column 0: " << c.exponents[0]);
    MPI_REQUIRE(same);
    MPI_REQUIRE(plain_report.scaling == "none" && plain_report.solver.passes == 1);
    MPI_REQUIRE(report.scaling == "auto" && report.solver.passes == 3 && report.warnings.size() == 1);
    if (world.comm.is_root()) {
      CHECK(*report.solver.condition_estimate == *plain_report.solver.condition_estimate);
      CHECK(std::isfinite(*report.solver.relative_residual));
      CHECK(std::isfinite(*report.solver.x_error_estimate));
    }
    SketchOptions unscaled = options;
    unscaled.scaling = ScalingChoice::kNone;
    const auto [code, message] = failure_of(world, scaled, unscaled);
    INFO(message);
    MPI_REQUIRE(code == c.unscaled_code);
  }
}

TEST_CASE("A column of zeros is looked at once more, not scaled") {
  World world;
  class ZeroColumn final : public RowSource {
   public:
    ZeroColumn() : shape_{2000, 2, 1, ElementType::kFloat64} {}
    const ProblemShape& shape() const override { return shape_; }
    const SourceInfo& info() const override { return info_; }
    void read(RowRange rows, void* a, double* b) override {
      for (std::int64_t i = 0; i < rows.size(); ++i) {
        static_cast<double*>(a)[2 * i] = exact_entry(rows.begin + i, 0);
        static_cast<double*>(a)[2 * i + 1] = exact_entry(rows.begin + i, 1);
        b[i] = 0;
      }
    }

   private:
    ProblemShape shape_;
    SourceInfo info_;
  } source;
  Report report;
  const std::vector<double> x = x_of(world, source, {}, report);
  MPI_REQUIRE(x == std::vector<double>(world.comm.is_root() ? 2 : 0, 0.0));
  MPI_REQUIRE(report.scaling == "none" && report.solver.passes == 2);
}

TEST_CASE(
    "At condition 1e9 an FP32 sketch reports dependent columns, an FP64 sketch finds x to the accuracy of its "
    "residual") {
  World world;
  SyntheticSource source({.kind = SyntheticKind::kIllConditioned,
                          .m = 6000,
                          .n = 30,
                          .type = ElementType::kFloat64,
                          .cond = 1e9,
                          .noise = 0});
  const auto [code, message] = failure_of(world, source);
  INFO(message);
  MPI_REQUIRE(code == 5);
  MPI_REQUIRE(message.find("--precision fp64") != std::string::npos);
  SketchOptions options;
  options.precision = SketchPrecision::kFp64;
  Report report;
  const std::vector<double> x = x_of(world, source, options, report);
  if (world.comm.is_root()) {
    CHECK(*report.solver.rank == 30);
    CHECK(*report.solver.condition_estimate > 1e7);
    CHECK(*report.solver.condition_estimate < 2e9);
    CHECK(*report.solver.relative_residual < 1e-12);
  }
}

TEST_CASE("A sketch reduced in fp16 is exact where halves hold its sums, and within their rounding elsewhere") {
  World world;
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  const auto reduced = [&](RowSource& source, ReducePrecision reduce) {
    return sketch_by_backend(source, spec, 300, *world.backend, world.comm, on_gpus(), ScalingChoice::kAuto, reduce);
  };
  // About 88 entries of magnitude 8 meet in a bucket: sums stay below 2048, which halves count up to exactly.
  ExactSource small(2800, 21, 2, ElementType::kFloat32);
  MPI_REQUIRE(reduced(small, ReducePrecision::kFp16) == oracle_of(small, spec));

  SyntheticSource source({.kind = SyntheticKind::kGaussian, .m = 20000, .n = 50, .seed = 5});
  const std::vector<double> exact = reduced(source, ReducePrecision::kFp32);
  const std::vector<double> halves = reduced(source, ReducePrecision::kFp16);
  if (!on_gpus()) MPI_REQUIRE(halves == reduced(source, ReducePrecision::kFp16));  // scatter and strip as they are
  std::vector<double> largest(51, 0.0);
  for (std::size_t i = 0; i < exact.size(); ++i) largest[i % 51] = std::max(largest[i % 51], std::fabs(exact[i]));
  bool b_equal = true, near = true;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = std::fabs(halves[i] - exact[i]);
    // b goes in FP32, in other messages than before, so that its sums may be taken in another order.
    if (i % 51 == 50) b_equal = b_equal && difference <= 2 * world.comm.size() * 0x1p-22 * largest[50];
    // Partial sums are of the size of the largest: one rounding of each rank's part, one of each addition.
    near = near && difference <= 2 * world.comm.size() * 0x1p-11 * 2 * largest[i % 51];
  }
  MPI_REQUIRE(b_equal);
  MPI_REQUIRE(near);
  MPI_REQUIRE(world.comm.size() == 1 || halves != exact);  // it was halves that went

  SketchOptions options;
  options.reduce = ReducePrecision::kFp16;
  Watchdog watchdog(60, "test");
  Progress silent(nullptr);
  Report report;
  solve(options, kSketchSolve, 1000, source, *world.backend, {world.comm, watchdog, silent, world.timer}, report);
  MPI_REQUIRE(report.reduce == "fp16");
  MPI_REQUIRE(report.losses && report.losses->overflowed == 0 && report.losses->flushed == 0);
}

TEST_CASE("A bf16 sketch of small integers equals the oracle bit for bit, resident and streamed, and loses nothing") {
  World world;
  SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  spec.precision = SketchPrecision::kBf16;
  // 22 entries of magnitude 8 meet in a bucket: sums stay below 256. The sum over ranks is FP32's.
  ExactSource source(700, 37, 1, ElementType::kFloat32);
  const std::vector<double> oracle = oracle_of(source, spec);
  for (const SketchRounding rounding :
       {SketchRounding::kNearest, SketchRounding::kStochastic, SketchRounding::kDither}) {
    spec.rounding = rounding;
    for (const bool resident : {false, true}) {
      MPI_REQUIRE(sketch_by_backend(source, spec, 100, *world.backend, world.comm, resident) == oracle);
      const RoundingLosses losses = world.backend->losses();
      MPI_REQUIRE(losses.overflowed == 0 && losses.flushed == 0);
    }
  }
}

TEST_CASE(
    "An fp16 sketch with automatic scaling keeps its accuracy at any scale of the data, without scaling it does not") {
  World world;
  class Scaled final : public RowSource {
   public:
    explicit Scaled(int exponent) : shape_{5003, 37, 1, ElementType::kFloat32}, exponent_(exponent) {}
    const ProblemShape& shape() const override { return shape_; }
    const SourceInfo& info() const override { return info_; }
    void read(RowRange rows, void* a, double* b) override {
      auto* out = static_cast<float*>(a);
      for (std::int64_t i = 0; i < rows.size(); ++i) {
        for (std::int64_t j = 0; j < 37; ++j) {
          out[37 * i + j] = static_cast<float>(std::ldexp(exact_entry(rows.begin + i, j), exponent_));
        }
        b[i] = exact_entry(rows.begin + i, 99);
      }
    }

   private:
    ProblemShape shape_;
    SourceInfo info_;
    int exponent_;
  };
  SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  spec.precision = SketchPrecision::kFp16;
  for (const int exponent : {-100, -40, -24, 0, 16, 20, 100}) {
    Scaled source(exponent);
    const std::vector<double> oracle = oracle_of(source, spec);
    const auto relative_error = [&](ScalingChoice scaling) {
      const std::vector<double> got = sketch_by_backend(source, spec, 1000, *world.backend, world.comm, true, scaling);
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < oracle.size(); ++i) {
        const double difference = got[i] - oracle[i];
        if (i % 38 == 37) {  // Sb stays FP32: exact on integers
          if (difference != 0) error = INFINITY;
          continue;
        }
        error += difference * difference;
        norm += oracle[i] * oracle[i];
      }
      return std::sqrt(error / norm);
    };
    INFO("scale 2^" << exponent);
    // About 156 entries meet in a bucket; every addition rounds the running sum to 11 bits: sqrt(156) 2^-11 = 0.6 %.
    MPI_REQUIRE(relative_error(ScalingChoice::kAuto) < 0.02);
    if (exponent <= -40 || exponent >= 16) {
      const double unscaled = relative_error(ScalingChoice::kNone);
      MPI_REQUIRE(!(unscaled < 0.5));  // flushed to zero, or infinite
      const RoundingLosses losses = world.backend->losses();
      MPI_REQUIRE((exponent < 0 ? losses.flushed : losses.overflowed) > 0);
    }
  }
}
