// Refinement of problems whose truth is known, on any number of ranks and both backends: condition, residual, rows and
// preconditioner in every combination; ridges, lost rank, standard errors. Rank 0 judges, all ranks agree.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/error.h"
#include "tests/support/catch.h"
#include "tests/support/dense_matrix.h"
#include "tests/support/dense_source.h"
#include "tests/support/mpi_check.h"
#include "tests/support/refine_world.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr PreconditionerChoice kPreconditioners[] = {PreconditionerChoice::kAuto, PreconditionerChoice::kSketch,
                                                     PreconditionerChoice::kGram};

MethodOptions refine_by(PreconditionerChoice preconditioner) {
  return {.method = SolveMethod::kRefine, .preconditioner = preconditioner};
}

DenseMatrix a_of(const DenseProblem& problem) { return from_row_major(problem.m, problem.n, problem.a); }
DenseMatrix b_of(const DenseProblem& problem) { return from_row_major(problem.m, problem.r, problem.b); }

/// The powers of two that bring columns near length 1, as the solver's do, within a factor of 2.
std::vector<int> column_scales(const DenseProblem& problem) {
  const DenseMatrix a = a_of(problem);
  std::vector<int> exponents;
  for (std::int64_t j = 0; j < a.cols; ++j) {
    const double size = norm(columns(a, j, 1));
    exponents.push_back(size > 0 ? -std::ilogb(size) - 1 : 0);
  }
  return exponents;
}

/// The largest true backward error of all right-hand sides.
double truth_of(const DenseProblem& problem, const std::vector<double>& x) {
  double worst = 0;
  for (std::int64_t k = 0; k < problem.r; ++k) {
    worst = std::max(worst, true_backward_error(problem, column_scales(problem), x, k));
  }
  return worst;
}

double relative_error(const std::vector<double>& x, const DenseMatrix& expected) {
  return norm(from_row_major(expected.rows, expected.cols, x) - expected) / norm(expected);
}

/// Integers, exact in float32: column 3 is twice column 1, column 5 zero, column 7 = column 0 + 2 column 2 - column 4; then
/// column j times 2^powers[j].
DenseProblem deficient_problem(std::int64_t m, std::int64_t r, const std::vector<int>& powers = {}) {
  const std::int64_t n = 9;
  DenseMatrix a = random_matrix(m, n, kSeed + 1);
  for (double& value : a.values) value = std::round(8 * value);
  for (std::int64_t i = 0; i < m; ++i) {
    a(i, 3) = 2 * a(i, 1);
    a(i, 5) = 0;
    a(i, 7) = a(i, 0) + 2 * a(i, 2) - a(i, 4);
  }
  if (!powers.empty()) a = scaled_columns(a, powers);
  return {m, n, r, row_major(a), row_major(random_matrix(m, r, kSeed + 2))};
}

}  // namespace

TEST_CASE("Every condition, residual, kind of rows and preconditioner is certified, and the truth confirms it") {
  RefineWorld world;
  for (const RowWeights weights : {RowWeights::kEven, RowWeights::kCoherent}) {
    for (const double cond : {1.0, 1e3, 1e6, 1e9}) {
      for (const double residual : {0.0, 1e-3, 1.0}) {
        DenseSource source(make_dense_problem(1000, 20, 1, cond, residual, kSeed, weights));
        for (const PreconditionerChoice preconditioner : kPreconditioners) {
          const Solved solved = world.solve(source, refine_by(preconditioner));
          const SolverOutcome& outcome = solved.report.solver;
          INFO("cond " << cond << " residual " << residual << " coherent " << (weights == RowWeights::kCoherent)
                       << " preconditioner " << to_word(preconditioner) << ", in the end " << outcome.preconditioner
                       << ": " << outcome.reason << ", passes " << outcome.passes);
          bool good = true;
          if (world.is_root()) {
            CHECK(outcome.converged);
            CHECK(*outcome.backward_error <= 1e-15);
            CHECK(*outcome.rank == 20);
            const double truth = truth_of(source.problem(), solved.solution.x);
            CHECK(truth <= 2e-15 + 2e-16);
            good = outcome.converged && truth <= 2e-15 + 2e-16;
            // Singular values as FP64 squares resolve them, or not.
            if (preconditioner == PreconditionerChoice::kGram) {
              if (cond <= 1e6) CHECK(outcome.preconditioner == "gram");
              if (cond > 1e7) CHECK(outcome.preconditioner == "sketch");
              CHECK(solved.report.warnings.empty() == (cond <= 1e6));
            }
            if (preconditioner == PreconditionerChoice::kSketch) CHECK(outcome.preconditioner == "sketch");
            CHECK(outcome.passes <= 100);
          }
          if (cond > 1e7) good = good && solved.report.sketch->precision == SketchPrecision::kFp64;
          MPI_REQUIRE(good);
        }
      }
    }
  }
}

TEST_CASE("Three right-hand sides of different kinds are certified together") {
  RefineWorld world;
  DenseProblem problem = make_dense_problem(1200, 15, 3, 1e4, 1.0, kSeed + 3);
  for (std::int64_t i = 0; i < problem.m; ++i) {
    double fitted = 0;
    for (std::int64_t j = 0; j < problem.n; ++j) fitted += problem.a[static_cast<std::size_t>(i * problem.n + j)];
    problem.b[static_cast<std::size_t>(i * 3 + 1)] = fitted;  // in the range of A
    problem.b[static_cast<std::size_t>(i * 3 + 2)] = 0;
  }
  DenseSource source(problem);
  for (const PreconditionerChoice preconditioner : kPreconditioners) {
    const Solved solved = world.solve(source, refine_by(preconditioner));
    bool good = true;
    if (world.is_root()) {
      const std::vector<double>& x = solved.solution.x;
      INFO("preconditioner " << to_word(preconditioner) << ": " << solved.report.solver.reason);
      CHECK(solved.report.solver.converged);
      for (std::int64_t k = 0; k < 2; ++k) {
        CHECK(true_backward_error(problem, column_scales(problem), x, k) <= 2e-15 + 2e-16);
      }
      for (std::size_t j = 0; j < 15; ++j) CHECK(x[3 * j + 2] == 0);
      good = solved.report.solver.converged;
    }
    MPI_REQUIRE(good);
  }
}

TEST_CASE("A ridge gives the solution of the problem with its rows appended, also where A alone has none") {
  RefineWorld world;
  for (const bool deficient : {false, true}) {
    const DenseProblem problem =
        deficient ? deficient_problem(900, 2) : make_dense_problem(900, 12, 2, 1e6, 1.0, kSeed + 4);
    DenseSource source(problem);
    for (const double ridge : {1e-4, 1.0, 1e3}) {
      const DenseProblem extended = with_ridge_rows(problem, ridge);
      for (const PreconditionerChoice preconditioner : kPreconditioners) {
        MethodOptions method = refine_by(preconditioner);
        method.ridge = ridge;
        const Solved solved = world.solve(source, method);
        bool good = true;
        if (world.is_root()) {
          const double truth = truth_of(extended, solved.solution.x);
          const double error = relative_error(solved.solution.x, least_squares(a_of(extended), b_of(extended)));
          INFO("deficient " << deficient << " ridge " << ridge << " preconditioner " << to_word(preconditioner) << ": "
                            << solved.report.solver.reason << " truth " << truth << " error " << error);
          CHECK(solved.report.solver.converged);
          CHECK(solved.report.solver.ridge == ridge);
          CHECK(truth <= 2e-15 + 2e-16);
          // 1e-15 times the square of the condition, at most about (100 / 1e-2)^2 for integers with a ridge of 1e-4.
          CHECK(error < 1e-6);
          good = solved.report.solver.converged && truth <= 2e-15 + 2e-16;
        }
        MPI_REQUIRE(good);
      }
    }
  }
}

TEST_CASE("Duplicated, zero and dependent columns have the minimum-norm solution of dgelsd, from both types") {
  RefineWorld world;
  for (const std::vector<int>& powers : {std::vector<int>{}, std::vector<int>{3, -4, 0, 2, 4, 0, -3, 4, -2}}) {
    for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat32}) {
      DenseSource source(deficient_problem(900, 2, powers), type);
      const DenseMatrix expected = least_squares(a_of(source.problem()), b_of(source.problem()), 1e-10);
      for (const PreconditionerChoice preconditioner : kPreconditioners) {
        MethodOptions method = refine_by(preconditioner);
        method.rank_policy = RankPolicy::kMinNorm;
        const Solved solved = world.solve(source, method);
        const SolverOutcome& outcome = solved.report.solver;
        bool good = true;
        if (world.is_root()) {
          const double error = relative_error(solved.solution.x, expected);
          INFO("scaled " << !powers.empty() << " type " << static_cast<int>(type) << " preconditioner "
                         << to_word(preconditioner) << ": " << outcome.reason << " error " << error);
          CHECK(outcome.converged);
          CHECK(*outcome.rank == 6);
          CHECK(outcome.reduced_solver == "svd");
          CHECK(error < 1e-12);
          good = outcome.converged && error < 1e-12;
        }
        MPI_REQUIRE(good);
      }
    }
  }
}

TEST_CASE("Lost rank is an error unless the minimum-norm solution is asked for, the same on all ranks") {
  RefineWorld world;
  for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat32}) {
    DenseSource source(deficient_problem(900, 1), type);
    for (const PreconditionerChoice preconditioner : kPreconditioners) {
      std::string message;
      try {
        world.solve(source, refine_by(preconditioner));
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::kRankDeficient) message = e.what();
      }
      INFO(message);
      MPI_REQUIRE(message.find("rank 6 of 9; columns 3, 5, 7 ") != std::string::npos);
    }
  }
}

TEST_CASE("A = 0 has the minimum-norm solution 0") {
  RefineWorld world;
  DenseProblem problem = make_dense_problem(500, 4, 1, 1, 1, kSeed + 5);
  std::fill(problem.a.begin(), problem.a.end(), 0.0);
  DenseSource source(problem);
  MethodOptions method = refine_by(PreconditionerChoice::kAuto);
  method.rank_policy = RankPolicy::kMinNorm;
  const Solved solved = world.solve(source, method);
  MPI_REQUIRE(!world.is_root() || solved.solution.x == std::vector<double>(4, 0.0));
  if (world.is_root()) {
    CHECK(solved.report.solver.converged);
    CHECK(*solved.report.solver.rank == 0);
  }
}

TEST_CASE("Standard errors are those of (A^T A)^-1: exact from the Gram matrix, within their spread from a sketch") {
  RefineWorld world;
  for (const double cond : {1.0, 1e3}) {
    DenseSource source(make_dense_problem(2000, 12, 2, cond, 0.5, kSeed + 6));
    const DenseProblem& problem = source.problem();
    const DenseMatrix root = inverse(triangle_of(a_of(problem)));
    const DenseMatrix rest = a_of(problem) * least_squares(a_of(problem), b_of(problem)) - b_of(problem);
    for (const PreconditionerChoice preconditioner : kPreconditioners) {
      MethodOptions method = refine_by(preconditioner);
      method.standard_errors = true;
      const Solved solved = world.solve(source, method);
      bool good = true;
      if (world.is_root()) {
        const bool exact = solved.report.solver.preconditioner == "gram";
        CHECK(exact == (preconditioner != PreconditionerChoice::kSketch));
        const double d = static_cast<double>(solved.report.sketch->d);
        const double allowed = exact ? 30 * 12 * kDoubleEpsilon * cond * cond : 5 * std::sqrt(2 / (d - 12));
        std::vector<double> errors = solved.solution.standard_errors;
        CHECK(errors.size() == 24);
        errors.resize(24, 0.0);
        double worst = 0;
        for (std::int64_t j = 0; j < 12; ++j) {
          for (std::int64_t k = 0; k < 2; ++k) {
            const double expected =
                norm(columns(transpose(root), j, 1)) * norm(columns(rest, k, 1)) / std::sqrt(2000.0 - 12);
            const double found = errors[static_cast<std::size_t>(2 * j + k)];
            worst = std::max(worst, std::fabs(found / expected - 1));
          }
        }
        INFO("preconditioner " << to_word(preconditioner) << " worst " << worst << " allowed " << allowed);
        CHECK(worst < allowed);
        good = worst < allowed;
      }
      MPI_REQUIRE(good);
      MPI_REQUIRE(world.is_root() || solved.solution.standard_errors.empty());
    }
  }
}
