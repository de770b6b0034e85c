// `--method refine` through the solver, on any number of ranks and both backends: the certificate is met, x is what LAPACK
// finds in FP64, and what cannot converge says so.
#include <algorithm>
#include <cmath>
#include <vector>

#include <lapacke.h>

#include "src/communicator.h"
#include "src/progress.h"
#include "src/solver.h"
#include "src/synthetic_source.h"
#include "src/watchdog.h"
#include "tests/support/catch.h"
#include "tests/support/mpi_check.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;

namespace {

constexpr MethodOptions kRefine{.method = SolveMethod::kRefine};
/// As it was before there was a choice.
constexpr MethodOptions kBySketch{.method = SolveMethod::kRefine, .preconditioner = PreconditionerChoice::kSketch};

struct Solved {
  std::vector<double> x;  // rank 0
  Report report;
};

Solved solve_refined(RowSource& source, const MethodOptions& method, std::uint64_t chunk_rows = 0) {
  const Communicator comm(MPI_COMM_WORLD);
  PhaseTimer timer;
  const auto backend = make_backend(run_options(), comm, timer);
  Watchdog watchdog(120, "test");
  Progress silent(nullptr);
  Solved solved;
  solved.x = solve({}, method, chunk_rows, source, *backend, {comm, watchdog, silent, timer}, solved.report).x;
  return solved;
}

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
  const Communicator comm(MPI_COMM_WORLD);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
    SyntheticSource source({.kind = "gaussian", .m = 9000, .n = 40, .type = type, .noise = 0.5, .seed = 3});
    for (const MethodOptions& method : {kRefine, kBySketch}) {
      const Solved solved = solve_refined(source, method, 1000);
      MPI_REQUIRE(!comm.is_root() || solved.report.solver.converged);
      bool near = true;
      if (comm.is_root()) {
        const double tolerance = type == ElementType::kFloat64 ? 1e-15 : 1e-12;
        CHECK(*solved.report.solver.backward_error <= tolerance);
        CHECK(solved.report.solver.passes <= 40);
        // Condition about 1.2, residual half of b: x moves by a few times the backward error times sqrt(n).
        near = relative_difference(solved.x, direct_solution(source)) < 100 * tolerance;
        CHECK(near);
      }
      MPI_REQUIRE(near);
    }
  }
}

TEST_CASE("Ill-conditioned float64 data are sketched again in FP64 and certified") {
  const Communicator comm(MPI_COMM_WORLD);
  SyntheticSource source(
      {.kind = "illcond", .m = 6000, .n = 30, .type = ElementType::kFloat64, .cond = 1e9, .noise = 0.1, .seed = 4});
  for (const MethodOptions& method : {kRefine, kBySketch}) {
    const Solved solved = solve_refined(source, method);
    MPI_REQUIRE(solved.report.sketch->precision == SketchPrecision::kFp64);
    MPI_REQUIRE(!comm.is_root() || solved.report.solver.converged);
    if (comm.is_root()) CHECK(*solved.report.solver.backward_error <= 1e-15);
  }
}

TEST_CASE("A limit of passes ends refinement without an error, with an x and without convergence") {
  const Communicator comm(MPI_COMM_WORLD);
  SyntheticSource source({.kind = "gaussian", .m = 5000, .n = 20, .noise = 0.5, .seed = 5});
  MethodOptions method = kBySketch;
  method.tolerance = 1e-12;
  method.max_passes = 4;
  const Solved solved = solve_refined(source, method);
  MPI_REQUIRE(!solved.report.solver.converged);
  MPI_REQUIRE(!comm.is_root() || solved.x.size() == 20);
  if (comm.is_root()) CHECK(*solved.report.solver.backward_error > 1e-12);
}

TEST_CASE("Refinement repeats bit for bit at fixed ranks and chunks") {
  const Communicator comm(MPI_COMM_WORLD);
  SyntheticSource source({.kind = "coherent", .m = 7000, .n = 25, .noise = 0.5, .seed = 6});
  for (const MethodOptions& method : {kRefine, kBySketch}) {
    const Solved first = solve_refined(source, method, 900);
    const Solved second = solve_refined(source, method, 900);
    MPI_REQUIRE(first.x == second.x);
  }
}
