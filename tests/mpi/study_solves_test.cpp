// The studies' solves: the exact solution is LAPACK's, the residual is that of the x returned, a failure is told and ends
// nothing. On any number of ranks.
#include "src/study_solves.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/progress.h"
#include "src/watchdog.h"
#include "tests/support/dense_problem.h"
#include "tests/support/dense_source.h"
#include "tests/support/error_kind.h"
#include "tests/support/mpi_check.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 700, kCols = 9;

struct World {
  explicit World(const RunOptions& options = run_options()) : backend(make_backend(options, comm, timer)) {}
  Communicator comm{MPI_COMM_WORLD};
  Watchdog watchdog{60, "test"};
  Progress silent{nullptr};
  PhaseTimer timer;
  std::unique_ptr<Backend> backend;
  SolveContext context{comm, watchdog, silent, timer};
};

/// Condition 100; columns of different sizes; half of b is out of the range of A.
DenseProblem problem() {
  DenseProblem p = make_dense_problem(kRows, kCols, 1, 100, 0.5, 5);
  scale_columns(p, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  return p;
}

double norm(const std::vector<double>& v) {
  double squares = 0;
  for (const double value : v) squares += value * value;
  return std::sqrt(squares);
}

std::vector<double> residual_of(const DenseProblem& p, const std::vector<double>& x) {
  std::vector<double> residual = p.b;
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      residual[static_cast<std::size_t>(i)] -=
          p.a[static_cast<std::size_t>(i * p.n + j)] * x[static_cast<std::size_t>(j)];
    }
  }
  return residual;
}

/// ||A^T (b - A x) - ridge x|| over its size where x is wrong by its own length: zero at the minimum.
double gradient_share(const DenseProblem& p, const std::vector<double>& x, double ridge) {
  const std::vector<double> residual = residual_of(p, x);
  double worst = 0;
  for (std::int64_t j = 0; j < p.n; ++j) {
    double gradient = -ridge * x[static_cast<std::size_t>(j)], size = 0;
    for (std::int64_t i = 0; i < p.m; ++i) {
      const double a = p.a[static_cast<std::size_t>(i * p.n + j)];
      gradient += a * residual[static_cast<std::size_t>(i)];
      size += a * a;
    }
    worst = std::max(worst, std::fabs(gradient) / (std::sqrt(size) * norm(p.b)));
  }
  return worst;
}

SketchOptions sketch_of(SketchPrecision precision) {
  SketchOptions sketch;
  sketch.oversample = 8;
  sketch.precision = precision;
  sketch.check_rows = 0;
  return sketch;
}

constexpr MethodOptions kSketchSolve{.method = SolveMethod::kSketchSolve};

}  // namespace

TEST_CASE("Figures of a study's solve are those of its x, and the exact solution makes the gradient vanish") {
  World world;
  DenseSource source(problem(), ElementType::kFloat32);
  const DenseProblem& p = source.problem();
  StudySolves solves(source, 100, *world.backend, world.context);
  const std::int64_t read_once = source.rows_read();
  MPI_REQUIRE(std::fabs(solves.b_norm() / norm(p.b) - 1) < 1e-12);
  for (const double ridge : {0.0, 0.5}) {
    const JudgedSolve exact = solves.exact(ridge);
    MPI_REQUIRE(!exact.failure && exact.converged);
    for (const SketchPrecision precision : {SketchPrecision::kFp32, SketchPrecision::kFp16, SketchPrecision::kFp64}) {
      MethodOptions method = kSketchSolve;
      method.ridge = ridge;
      const JudgedSolve solved = solves.solve(sketch_of(precision), method);
      MPI_REQUIRE(!solved.failure && solved.converged && solved.passes == 1);
      MPI_REQUIRE(solved.seconds > 0 && solved.sketch_seconds > 0 && solved.refine_seconds == 0);
      MPI_REQUIRE(solved.objective > exact.objective);
      bool right = true;
      if (world.comm.is_root()) {
        const double length = norm(residual_of(p, solved.x));
        right = std::fabs(solved.residual * norm(p.b) / length - 1) < 1e-12 &&
                std::fabs(solved.objective / std::hypot(length, std::sqrt(ridge) * norm(solved.x)) - 1) < 1e-12;
      }
      MPI_REQUIRE(right);
    }
    bool stationary = true;
    if (world.comm.is_root()) {
      INFO("ridge " << ridge << ": " << gradient_share(p, exact.x, ridge));
      CHECK((stationary = gradient_share(p, exact.x, ridge) < 1e-14));
    }
    MPI_REQUIRE(stationary);
  }
  MPI_REQUIRE(source.rows_read() == read_once);  // all from the rows that are kept
}

TEST_CASE("A study goes on after a solve that fails, and says how it failed") {
  World world;
  DenseProblem p = problem();
  for (double& value : p.a) value = std::ldexp(value, -40);
  DenseSource source(p, ElementType::kFloat32);
  StudySolves solves(source, 0, *world.backend, world.context);
  SketchOptions unscaled = sketch_of(SketchPrecision::kFp16);
  unscaled.scaling = ScalingChoice::kNone;
  const JudgedSolve flushed = solves.solve(unscaled, kSketchSolve);
  MPI_REQUIRE(flushed.failure == ErrorKind::kRankDeficient);
  MPI_REQUIRE(flushed.losses.flushed == static_cast<unsigned long long>(kRows * kCols * 4));
  const JudgedSolve solved = solves.solve(sketch_of(SketchPrecision::kFp16), kSketchSolve);
  MPI_REQUIRE(!solved.failure);
  MPI_REQUIRE(solved.residual < 1);

  for (double& value : p.a) value = std::ldexp(value, 70);
  DenseSource large(p, ElementType::kFloat32);
  StudySolves of_large(large, 0, *world.backend, world.context);
  const JudgedSolve overflowed = of_large.solve(unscaled, kSketchSolve);
  MPI_REQUIRE(overflowed.failure == ErrorKind::kNonFinite);
  MPI_REQUIRE(!of_large.solve(sketch_of(SketchPrecision::kBf16), kSketchSolve).failure);
}

TEST_CASE("Rows that do not stay in memory are refused, and other errors are not taken for results") {
  RunOptions options = run_options();
  options.residency = ResidencyChoice::kFile;
  World world(options);
  DenseSource source(problem(), ElementType::kFloat32);
  std::optional<ErrorKind> kind = error_kind_of([&] { StudySolves(source, 0, *world.backend, world.context); });
  MPI_REQUIRE(kind == ErrorKind::kMemory);
  World other;
  StudySolves solves(source, 0, *other.backend, other.context);
  SketchOptions wrong = sketch_of(SketchPrecision::kFp32);
  wrong.kappa = 2;  // belongs to another family
  kind = error_kind_of([&] { solves.solve(wrong, kSketchSolve); });
  MPI_REQUIRE(kind == ErrorKind::kUsage);
}
