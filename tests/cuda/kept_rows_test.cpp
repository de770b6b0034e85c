// Rows that the CUDA backend keeps: sketched again in another precision, or made a Gram matrix of, they give what a fresh
// upload gives bit for bit; and the rows that it makes up for benchmarks.
#include <cmath>
#include <memory>
#include <vector>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/row_pass.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/exact_source.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

struct World {
  Communicator comm{MPI_COMM_WORLD};
  PhaseTimer timer;
  std::unique_ptr<Backend> backend;
  World() {
    RunOptions options;
    options.backend = BackendChoice::kCuda;
    backend = make_backend(options, comm, timer);
  }
};

/// A job whose rows stay, as a solve plans it.
SketchJob job_of(const ProblemShape& shape, const SketchSpec& spec, Compression compression, bool kept, World& world,
                 std::int64_t chunk_rows = 400) {
  SketchJob job;
  job.spec = spec;
  job.shape = shape;
  job.encoding = plain_encoding(shape.a_type);
  job.refine = true;
  job.compression = compression;
  job.kept = kept;
  PlanLimits limits = world.backend->plan_limits(job);
  limits.chunk_rows = chunk_rows;
  job.plan = make_plan(shape, spec, 1, limits, compression);
  job.rows = job.plan.rank_rows[0];
  return job;
}

std::vector<double> finished(World& world) {
  world.backend->exchange();
  world.backend->sketch();
  world.backend->reduce();
  return world.backend->sketch_copy();
}

std::vector<double> uploaded(RowSource& source, const SketchJob& job, World& world) {
  world.backend->begin(job);
  for_each_chunk(job.rows, job.plan.chunk_rows, [&](RowRange rows) {
    ChunkBuffer& chunk = world.backend->next_buffer(rows);
    source.read(rows, chunk.a, chunk.b);
    world.backend->upload(chunk);
  });
  return finished(world);
}

std::vector<double> of_kept(const SketchJob& job, World& world) {
  world.backend->begin(job);
  world.backend->take_kept();
  return finished(world);
}

NormalSums pass(World& world, const std::vector<double>& x) {
  world.backend->normal_begin(x, true);
  world.backend->normal_add_kept();
  return world.backend->normal_end();
}

SketchSpec in_fp64(SketchSpec spec) {
  spec.precision = SketchPrecision::kFp64;
  return spec;
}

/// Sketches in FP32, then what is kept in FP64 and as a Gram matrix, and compares with fresh uploads.
void check_kept(RowSource& source, const SketchSpec& spec) {
  World world;
  const ProblemShape& shape = source.shape();
  const std::vector<double> x(static_cast<std::size_t>(shape.n * shape.r), 1.0);
  const SketchJob first = job_of(shape, spec, Compression::kSketch, false, world);
  REQUIRE(first.plan.residency == Residency::kDevice);
  const std::vector<double> in_fp32 = uploaded(source, first, world);
  CHECK(world.backend->keeps_rows());
  const NormalSums sums = pass(world, x);

  for (const Compression compression : {Compression::kSketch, Compression::kGram}) {
    const std::vector<double> again = of_kept(job_of(shape, in_fp64(spec), compression, true, world), world);
    CHECK(world.backend->keeps_rows());
    CHECK((pass(world, x).gradient == sums.gradient));
    World fresh;
    CHECK((again == uploaded(source, job_of(shape, in_fp64(spec), compression, false, fresh), fresh)));
  }
  CHECK((of_kept(job_of(shape, spec, Compression::kSketch, true, world), world) == in_fp32));
}

}  // namespace

TEST_CASE(
    "Kept float64 rows of an FP32 sketch, sketched again in FP64, give a fresh upload's bits; and Gram matrices") {
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  for (const std::int64_t n : {21, 32, 37}) {
    ExactSource source(3001, n, 2, ElementType::kFloat64);
    check_kept(source, spec);
  }
  WideExactSource wide(3001, 21, 1);
  check_kept(wide, spec);
  ExactSource independent(3001, 21, 1, ElementType::kFloat64);
  check_kept(independent, make_spec(SketchHash::kIndependent, 128, 4));
}

TEST_CASE("Kept rows of the other types too") {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
    for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
      ExactSource source(3001, 37, 1, type);
      check_kept(source, make_spec(hash, 128, 4));
    }
  }
}

TEST_CASE("Made-up rows have the residual that was asked for, are the same again, and can be solved") {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
    World world;
    const ProblemShape shape{20001, 30, 2, type};
    const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
    const MadeUpProblem problem{100, 1e-3, 7};
    world.backend->begin(job_of(shape, spec, Compression::kSketch, false, world));
    std::vector<double> squares(2, 1.0);
    world.backend->make_up(problem, squares);
    world.backend->take_kept();
    const std::vector<double> sketch = finished(world);
    CHECK(world.backend->read_floor(3) > 0);

    const NormalSums at_zero = pass(world, std::vector<double>(60, 0.0)),
                     at_one = pass(world, std::vector<double>(60, 1.0));
    for (std::size_t k = 0; k < 2; ++k) {
      CHECK(at_zero.residual_squares[k] == Catch::Approx(squares[k] - 1).epsilon(1e-12));
      // 20001 normal numbers: their norm is known to a few percent; that of A 1 to a tenth, one direction being large.
      const double relative = std::sqrt(at_one.residual_squares[k] / at_zero.residual_squares[k]);
      CHECK(relative > 0.8e-3);
      CHECK(relative < 1.25e-3);
    }
    CHECK(at_one.residual_squares[0] != at_one.residual_squares[1]);

    double seconds = 0;
    const std::vector<double> x = world.backend->solve_by_qr(seconds);
    CHECK(seconds > 0);
    const NormalSums at_x = pass(world, x);
    for (std::size_t k = 0; k < at_x.gradient.size(); ++k) {
      CHECK(std::fabs(at_x.gradient[k]) < 1e-12 * std::fabs(at_zero.gradient[k]) + 1e-12);
    }

    World second;
    std::vector<double> again(2, 1.0);
    second.backend->begin(job_of(shape, spec, Compression::kSketch, false, second));
    second.backend->make_up(problem, again);
    CHECK((again == squares));
    second.backend->take_kept();
    CHECK((finished(second) == sketch));
  }
}

TEST_CASE("Rows are not made up where none are kept, nor in 16 bits") {
  World world;
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 128, 4);
  std::vector<double> squares(1, 0.0);
  SketchJob job = job_of({2001, 30, 1, ElementType::kFloat32}, spec, Compression::kSketch, false, world);
  job.plan.residency = Residency::kFile;
  world.backend->begin(job);
  CHECK(error_kind_of([&] { world.backend->make_up({}, squares); }) == ErrorKind::kUsage);
  CHECK(error_kind_of([&] { world.backend->read_floor(1); }) == ErrorKind::kUsage);
  world.backend->begin(job_of({2001, 30, 1, ElementType::kFloat16}, spec, Compression::kSketch, false, world));
  CHECK(error_kind_of([&] { world.backend->make_up({}, squares); }) == ErrorKind::kUsage);
}
