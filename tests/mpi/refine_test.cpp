// `--method refine` through the solver, on any number of ranks and both backends: the certificate is met, x is what LAPACK
// finds in FP64, and what cannot converge says so.
#include <algorithm>
#include <cmath>
#include <vector>

#include <lapacke.h>

#include "src/synthetic_source.h"
#include "tests/support/catch.h"
#include "tests/support/dense_source.h"
#include "tests/support/mpi_check.h"
#include "tests/support/refine_world.h"

using namespace tallsketch;

namespace {

constexpr MethodOptions kRefine{.method = SolveMethod::kRefine};
/// As it was before there was a choice.
constexpr MethodOptions kBySketch{.method = SolveMethod::kRefine, .preconditioner = PreconditionerChoice::kSketch};

/// All rows of a source, FP64, and the least-squares solution by LAPACK.
std::vector<double> direct_solution(RowSource& source) {
  const auto [m, n, r, type] = source.shape();
  std::vector<double> a(static_cast<std::size_t>(m * n)), b(static_cast<std::size_t>(m * r));
  if (type == ElementType::kFloat64) {
    source.read({0, m}, a.data(), b.data());
  } else {
    std::vector<float> narrow(a.size());
    source.read({0, m}, narrow.data(), b.data());
    std::copy(narrow.begin(), narrow.end(), a.begin());
  }
  const auto rows = static_cast<int>(m), cols = static_cast<int>(n), rhs = static_cast<int>(r);
  REQUIRE(LAPACKE_dgels(LAPACK_ROW_MAJOR, 'N', rows, cols, rhs, a.data(), cols, b.data(), rhs) == 0);
  return {b.begin(), b.begin() + n * r};
}

double relative_difference(const std::vector<double>& x, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference = std::hypot(difference, x[i] - expected[i]);
    norm = std::hypot(norm, expected[i]);
  }
  return difference / norm;
}

}  // namespace

TEST_CASE("Refinement meets its certificate in both types, and x agrees with a direct solver's") {
  RefineWorld world;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
    SyntheticSource source(
        {.kind = SyntheticKind::kGaussian, .m = 9000, .n = 40, .type = type, .noise = 0.5, .seed = 3});
    for (const MethodOptions& method : {kRefine, kBySketch}) {
      const Solved solved = world.solve(source, method, {}, 1000);
      MPI_REQUIRE(!world.is_root() || solved.report.solver.converged);
      bool near = true;
      if (world.is_root()) {
        const double tolerance = type == ElementType::kFloat64 ? 1e-15 : 1e-12;
        CHECK(*solved.report.solver.backward_error <= tolerance);
        CHECK(solved.report.solver.passes <= 40);
        // Condition about 1.2, residual half of b: x moves by a few times the backward error times sqrt(n).
        near = relative_difference(solved.solution.x, direct_solution(source)) < 100 * tolerance;
        CHECK(near);
      }
      MPI_REQUIRE(near);
    }
  }
}

TEST_CASE("Ill-conditioned float64 data are sketched again in FP64 and certified") {
  RefineWorld world;
  SyntheticSource source({.kind = SyntheticKind::kIllConditioned,
                          .m = 6000,
                          .n = 30,
                          .type = ElementType::kFloat64,
                          .cond = 1e9,
                          .noise = 0.1,
                          .seed = 4});
  for (const MethodOptions& method : {kRefine, kBySketch}) {
    const Solved solved = world.solve(source, method);
    MPI_REQUIRE(solved.report.sketch->precision == SketchPrecision::kFp64);
    MPI_REQUIRE(!world.is_root() || solved.report.solver.converged);
    if (world.is_root()) CHECK(*solved.report.solver.backward_error <= 1e-15);
  }
}

TEST_CASE("A limit of passes ends refinement without an error, with an x and without convergence") {
  RefineWorld world;
  SyntheticSource source({.kind = SyntheticKind::kGaussian, .m = 5000, .n = 20, .noise = 0.5, .seed = 5});
  MethodOptions method = kBySketch;
  method.tolerance = 1e-12;
  method.max_passes = 4;
  const Solved solved = world.solve(source, method);
  MPI_REQUIRE(!solved.report.solver.converged);
  MPI_REQUIRE(!world.is_root() || solved.solution.x.size() == 20);
  if (world.is_root()) CHECK(*solved.report.solver.backward_error > 1e-12);
}

TEST_CASE("Refinement repeats bit for bit at fixed ranks and chunks") {
  RefineWorld world;
  SyntheticSource source({.kind = SyntheticKind::kCoherent, .m = 7000, .n = 25, .noise = 0.5, .seed = 6});
  for (const MethodOptions& method : {kRefine, kBySketch}) {
    const Solved first = world.solve(source, method, {}, 900);
    const Solved second = world.solve(source, method, {}, 900);
    MPI_REQUIRE(first.solution.x == second.solution.x);
  }
}

TEST_CASE("Rows that are kept are read once, however many attempts and passes there are") {
  RefineWorld world;
  // Condition 1e9: the Gram matrix gives way to an FP64 sketch.
  DenseSource source(make_dense_problem(3000, 10, 2, 1e9, 0.1, 7));
  MethodOptions method = kRefine;
  method.preconditioner = PreconditionerChoice::kGram;
  const Solved solved = world.solve(source, method, {}, 250);
  MPI_REQUIRE(solved.report.warnings.size() == 1);
  MPI_REQUIRE(solved.report.sketch->precision == SketchPrecision::kFp64);
  MPI_REQUIRE(solved.report.plan->residency == (on_gpus() ? Residency::kDevice : Residency::kHost));
  std::int64_t rows = source.rows_read();
  world.comm.sum(&rows, 1);
  MPI_REQUIRE(rows == 3000);
  MPI_REQUIRE(solved.report.bytes_read == 3000 * 10 * 8);
  MPI_REQUIRE(!world.is_root() || solved.report.solver.converged);
}

TEST_CASE("Rows stay where there is room, or are read for every pass, with the same x") {
  SketchOptions sketch;
  sketch.oversample = 4;  // whatever a pass costs
  std::int64_t needed = 0;
  std::vector<double> x;
  const auto solved_with = [&](std::uint64_t memory, ResidencyChoice asked, Residency expected) {
    CAPTURE(memory, to_word(asked));
    RefineWorld world(memory, asked);
    DenseSource source(make_dense_problem(8000, 10, 1, 1e2, 0.1, 8));
    const Solved solved = world.solve(source, kBySketch, sketch, 250);
    const SolverOutcome& outcome = solved.report.solver;
    MPI_REQUIRE(solved.report.plan->residency == expected);
    std::int64_t rows = source.rows_read();
    world.comm.sum(&rows, 1);
    MPI_REQUIRE(rows == 8000 * (expected == Residency::kFile ? outcome.passes : 1));
    MPI_REQUIRE(solved.report.bytes_read == rows * 10 * 8);
    MPI_REQUIRE(!world.is_root() || outcome.converged);
    if (needed == 0) {
      needed = solved.report.plan->total_bytes();
      x = solved.solution.x;
    } else if (!on_gpus()) {  // GPU lanes add other rows with other chunks
      MPI_REQUIRE(solved.solution.x == x);
    }
  };
  const Residency best = on_gpus() ? Residency::kDevice : Residency::kHost;
  solved_with(0, ResidencyChoice::kAuto, best);
  const auto too_little = static_cast<std::uint64_t>(needed - 1);
  solved_with(too_little, ResidencyChoice::kAuto, on_gpus() ? Residency::kHost : Residency::kFile);
  solved_with(0, ResidencyChoice::kHost, Residency::kHost);
  solved_with(0, ResidencyChoice::kFile, Residency::kFile);
  solved_with(too_little, ResidencyChoice::kFile, Residency::kFile);
}
