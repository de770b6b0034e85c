// What is told of x: the split residual, estimates of one pass against dense truth over seeds, standard errors against
// (A^T A)^-1, and the messages.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "src/certificate.h"
#include "src/error.h"
#include "src/outcome.h"
#include "src/sketch_factor.h"
#include "tests/support/catch.h"
#include "tests/support/dense_matrix.h"
#include "tests/support/dense_problem.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::uint64_t kSeed = 20240229;

struct Statistics {
  double mean = 0, deviation = 0, standard_error = 0;
};

Statistics statistics_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Statistics result;
  for (const double value : values) result.mean += value / count;
  for (const double value : values) result.deviation += (value - result.mean) * (value - result.mean) / (count - 1);
  result.deviation = std::sqrt(result.deviation);
  result.standard_error = result.deviation / std::sqrt(count);
  return result;
}

DenseMatrix a_of(const DenseProblem& problem) { return from_row_major(problem.m, problem.n, problem.a); }
DenseMatrix b_of(const DenseProblem& problem) { return from_row_major(problem.m, problem.r, problem.b); }

/// One pass over a problem: its FP64 sketch without the check rows, solved, and judged.
struct OnePass {
  TriangularFactor factor;
  ReducedSolution solution;
  Report report;
};

OnePass one_pass(const DenseProblem& problem, std::int64_t d, std::int64_t check_rows, std::uint64_t seed) {
  const std::int64_t n = problem.n, r = problem.r;
  const SketchSpec spec = make_spec(SketchHash::kPermuted, d, 4, seed);
  const std::vector<double> sketch = oracle_sketch(spec, {problem.a.data(), problem.m, n, n, ElementType::kFloat64, 0},
                                                   {problem.b.data(), problem.m, r, r, ElementType::kFloat64, 0});
  const CheckRows held_back = make_check_rows(d, check_rows);
  OnePass pass{qr_of_sketch(sketch, d, n, r, 0.5, held_back), {}, {}};
  pass.solution = solve_reduced(pass.factor, d - check_rows);
  pass.report.solver.passes = 1;
  const SketchResidual residual =
      split_residual(residual_of_sketch(sketch, d, n, r, 0.5, pass.solution.x), r, held_back);
  estimate_quality(residual, d, held_back, pass.solution, pass.factor, norm_of(problem.b), pass.report);
  return pass;
}

/// A made-up solution with all that the messages need.
ReducedSolution lost(std::int64_t n, const std::vector<std::int64_t>& dependent) {
  ReducedSolution solution;
  solution.dependent = dependent;
  solution.rank = n - static_cast<std::int64_t>(dependent.size());
  return solution;
}

std::string message_of(const ReducedSolution& solution, std::int64_t n, SketchPrecision precision) {
  try {
    require_full_rank(solution, n, precision);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kRankDeficient);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A residual is split between the rows that x was made from and those held back") {
  const CheckRows held_back = make_check_rows(10, 3);  // stride 3, from 1: rows 1, 4, 7
  const std::vector<double> residual = {1, 2, 30, 40, 3, 4, 5, 6, 50, 60, 7, 8, 9, 10, 70, 80, 11, 12, 13, 14};
  const SketchResidual split = split_residual(residual, 2, held_back);
  double used = 0, check = 0;
  for (const double value : residual) (value >= 30 ? check : used) += value * value;
  CHECK(split.used == Catch::Approx(std::sqrt(used)).epsilon(1e-14));
  CHECK(split.check == Catch::Approx(std::sqrt(check)).epsilon(1e-14));
  const SketchResidual whole = split_residual(residual, 2, {});
  CHECK(whole.used == Catch::Approx(std::sqrt(used + check)).epsilon(1e-14));
  CHECK(whole.check == 0);
  // Without harmful overflow.
  CHECK(split_residual({3e200, -4e200}, 1, {}).used == Catch::Approx(5e200));
}

TEST_CASE("Estimates of one pass agree with the dense truth over 30 seeds, and check rows are unbiased") {
  constexpr int kSeeds = 30;
  const std::int64_t n = 20, r = GENERATE(1, 3), used = 160, checks = 64, d = used + checks;
  const DenseProblem problem = make_dense_problem(3000, n, r, GENERATE(1.0, 1e4), 0.5, kSeed);
  const DenseMatrix a = a_of(problem), b = b_of(problem), best = least_squares(a, b);
  const double least = norm(a * best - b);
  std::vector<double> excess, check_share, estimate_share, excess_checks, error_share, bound_share;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const OnePass pass = one_pass(problem, d, checks, 1000 + static_cast<std::uint64_t>(seed));
    const SolverOutcome& outcome = pass.report.solver;
    const DenseMatrix x = from_row_major(n, r, pass.solution.x);
    const double truth = norm(a * x - b);
    excess.push_back(truth / least - 1);
    check_share.push_back(std::pow(*outcome.residual_check / truth, 2));
    estimate_share.push_back(*outcome.residual_norm / truth);
    excess_checks.push_back(*outcome.residual_excess_check - excess.back());
    error_share.push_back(norm(x - best) / norm(x) / *outcome.x_error_estimate);
    CHECK(outcome.check_rows == checks);
    CHECK(outcome.converged);
    CHECK(*outcome.x_norm == Catch::Approx(norm(x)));
    CHECK(*outcome.relative_residual == Catch::Approx(*outcome.residual_norm / norm(b)));
    if (r == 1) {
      const std::vector<int> exponent(pass.factor.exponent.begin(), pass.factor.exponent.begin() + n);
      bound_share.push_back(true_backward_error(problem, exponent, pass.solution.x) / *outcome.backward_error_estimate);
    }
    CHECK(pass.report.warnings.empty());
    CHECK(*outcome.residual_excess_estimate ==
          Catch::Approx(1 / std::sqrt(1 - static_cast<double>(n) / static_cast<double>(used)) - 1));
  }
  const double expected = 1 / std::sqrt(1 - static_cast<double>(n) / static_cast<double>(used)) - 1;
  const Statistics seen = statistics_of(excess);
  CAPTURE(seen.mean, seen.deviation, expected);
  CHECK(std::fabs(seen.mean - expected) < seen.deviation);
  const Statistics check = statistics_of(check_share);
  CAPTURE(check.mean, check.standard_error);
  CHECK(std::fabs(check.mean - 1) < 4 * check.standard_error);
  CHECK(check.standard_error < 0.1);  // so that the line above says something
  const Statistics estimate = statistics_of(estimate_share);
  CAPTURE(estimate.mean, estimate.standard_error);
  CHECK(std::fabs(estimate.mean - 1) < 4 * estimate.standard_error + 0.02);  // the mean of a root
  const Statistics by_checks = statistics_of(excess_checks);
  CAPTURE(by_checks.mean, by_checks.standard_error);
  CHECK(std::fabs(by_checks.mean) < 4 * by_checks.standard_error);
  // The error of x, in the mean of squares: some ten per cent of Hutchinson, and n / r degrees of freedom a seed.
  double squares = 0;
  for (const double share : error_share) squares += share * share / kSeeds;
  CAPTURE(squares);
  CHECK(std::sqrt(squares) > 0.5);
  CHECK(std::sqrt(squares) < 2);
  for (const double share : bound_share) CHECK(share < 2);  // a bound of what is expected, not of each seed
}

TEST_CASE("Check rows far above what is expected make a warning, and those within their spread none") {
  const DenseProblem problem = make_dense_problem(500, 5, 1, 10, 0.5, kSeed + 1);
  OnePass pass = one_pass(problem, 64, 32, 7);
  const CheckRows held_back = make_check_rows(64, 32);
  const auto warnings_for = [&](double factor) {
    Report report;
    // What the used rows expect of the check rows: ||S_c (b - A x)|| = sqrt(c / d) * residual_norm.
    const double used = 1, residual = used * std::sqrt(64.0 / 32) / (1 - 5.0 / 32);
    estimate_quality({used, factor * residual * std::sqrt(32.0 / 64)}, 64, held_back, pass.solution, pass.factor, 10,
                     report);
    CHECK(*report.solver.residual_check == Catch::Approx(factor * *report.solver.residual_norm));
    return report.warnings;
  };
  CHECK(warnings_for(1).empty());
  CHECK(warnings_for(1.85).empty());  // 1 + 4 hypot(1 / sqrt(64), 1 / sqrt(27)) = 1.92
  REQUIRE(warnings_for(2).size() == 1);
  CHECK_THAT(warnings_for(2)[0], ContainsSubstring("32 sketch rows") && ContainsSubstring("--oversample"));
}

TEST_CASE("b = 0 and x = 0 give figures that are zero or absent, never NaN") {
  DenseProblem problem = make_dense_problem(300, 5, 1, 10, 0.5, kSeed + 2);
  std::fill(problem.b.begin(), problem.b.end(), 0.0);
  for (const std::int64_t checks : {0, 32}) {
    const SolverOutcome outcome = one_pass(problem, 64, checks, 7).report.solver;
    CHECK(*outcome.residual_norm == 0);
    CHECK(*outcome.relative_residual == 0);
    CHECK(*outcome.backward_error_estimate == 0);
    CHECK(!outcome.x_error_estimate);
    CHECK(!outcome.residual_excess_check);
    CHECK(outcome.residual_check.has_value() == (checks > 0));
  }
}

TEST_CASE("A = 0 has the solution 0, with the figures of a residual that is b") {
  DenseProblem problem = make_dense_problem(300, 3, 1, 10, 0.5, kSeed + 5);
  std::fill(problem.a.begin(), problem.a.end(), 0.0);
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 64, 4, 7);
  const std::vector<double> sketch = oracle_sketch(spec, {problem.a.data(), 300, 3, 3, ElementType::kFloat64, 0},
                                                   {problem.b.data(), 300, 1, 1, ElementType::kFloat64, 0});
  const TriangularFactor factor = qr_of_sketch(sketch, 64, 3, 1, 0.5);
  const ReducedSolution solution = solve_reduced(factor, 64, ReducedMethod::kSpectral);
  REQUIRE(solution.x == std::vector<double>(3, 0.0));
  Report report;
  const std::vector<double> residual = residual_of_sketch(sketch, 64, 3, 1, 0.5, solution.x);
  estimate_quality(split_residual(residual, 1, {}), 64, {}, solution, factor, norm_of(problem.b), report);
  CHECK(*report.solver.residual_norm == Catch::Approx(norm_of(residual)));
  CHECK(*report.solver.residual_excess_estimate == 0);
  CHECK(*report.solver.backward_error_estimate == 0);
  CHECK(!report.solver.x_error_estimate);
  RefineResult result;
  result.residual_norm = {norm_of(problem.b)};
  const ProblemShape shape{300, 3, 1, ElementType::kFloat64};
  CHECK(standard_errors(solution, factor, result, shape, 64) == std::vector<double>(3, 0.0));
}

TEST_CASE("Standard errors of an exact preconditioner are those of (A^T A)^-1, at any column scales") {
  const std::int64_t m = 200, n = 12, r = 2;
  const double cond = GENERATE(1.0, 1e4);
  DenseProblem problem = make_dense_problem(m, n, r, cond, 0.7, kSeed + 3);
  std::vector<int> powers(static_cast<std::size_t>(n), 0);
  if (GENERATE(false, true)) {
    for (int j = 0; j < n; ++j) powers[static_cast<std::size_t>(j)] = j % 2 == 0 ? 7 - j : 3 * j - 20;
  }
  scale_columns(problem, powers);
  const DenseMatrix a = a_of(problem), b = b_of(problem), ab = beside(a, b);
  // (A^T A)^-1 = R^-1 R^-T, without squaring: of the plain problem, the powers undone exactly.
  std::vector<int> back;
  for (const int power : powers) back.push_back(-power);
  const DenseMatrix root = inverse(triangle_of(scaled_columns(a, back)));
  RefineResult result;
  const DenseMatrix rest = a * least_squares(a, b) - b;
  for (std::int64_t k = 0; k < r; ++k) result.residual_norm.push_back(norm(columns(rest, k, 1)));

  const std::vector<double> rows = row_major(ab);
  const auto check = [&](const TriangularFactor& factor, ReducedMethod method, double eps) {
    const ReducedSolution solution = solve_reduced(factor, m, method);
    const std::vector<double> errors = standard_errors(solution, factor, result, {m, n, r, ElementType::kFloat64}, 0);
    REQUIRE(errors.size() == static_cast<std::size_t>(n * r));
    for (std::int64_t j = 0; j < n; ++j) {
      const double row = norm(columns(transpose(root), j, 1));
      for (std::int64_t k = 0; k < r; ++k) {
        const double expected = std::ldexp(row, -powers[static_cast<std::size_t>(j)]) *
                                result.residual_norm[static_cast<std::size_t>(k)] / std::sqrt(double(m - n));
        CHECK(std::fabs(errors[static_cast<std::size_t>(j * r + k)] / expected - 1) < 30 * double(n) * eps);
      }
    }
  };
  const TriangularFactor qr = qr_of_sketch(rows, m, n, r, 1.0);
  check(qr, ReducedMethod::kTriangle, kDoubleEpsilon * cond);
  check(qr, ReducedMethod::kSpectral, kDoubleEpsilon * cond);
  const DenseMatrix gram = transpose(ab) * ab;
  const auto cholesky = cholesky_of_gram(gram.values, n, r, {kDoubleEpsilon / 2, 1, 0, {}});
  REQUIRE(cholesky);
  check(*cholesky, ReducedMethod::kTriangle, kDoubleEpsilon * cond * cond);
}

TEST_CASE("Standard errors from a sketch are unbiased in their squares") {
  constexpr int kSeeds = 30;
  const std::int64_t m = 3000, n = 20, d = 80;
  const DenseProblem problem = make_dense_problem(m, n, 1, 10, 0.7, kSeed + 4);
  RefineResult result;
  result.residual_norm = {1};
  const DenseMatrix root = inverse(triangle_of(a_of(problem)));
  std::vector<double> shares;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const OnePass pass = one_pass(problem, d, 0, 2000 + static_cast<std::uint64_t>(seed));
    const std::vector<double> errors =
        standard_errors(pass.solution, pass.factor, result, {m, n, 1, ElementType::kFloat64}, d);
    double share = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double expected = norm(columns(transpose(root), j, 1)) / std::sqrt(double(m - n));
      share += std::pow(errors[static_cast<std::size_t>(j)] / expected, 2) / double(n);
    }
    shares.push_back(share);
  }
  const Statistics seen = statistics_of(shares);
  CAPTURE(seen.mean, seen.standard_error);
  CHECK(std::fabs(seen.mean - 1) < 4 * seen.standard_error);
  CHECK(seen.standard_error < 0.05);  // d / (d - n - 1) = 1.36: without it the line above fails
}

TEST_CASE("What a refinement found is told over all right-hand sides") {
  RefineResult result;
  result.x = {3, 0, 0, 4};
  result.converged = true;
  result.reason = RefineReason::kCertificateMet;
  result.iterations = 12;
  result.backward_error = {1e-16, 3e-16};
  result.residual_norm = {3, 4};
  result.normal_residual = {6e-9, 8e-9};
  result.preconditioned_gradient = {0.3, 0.4};
  SolverOutcome outcome;
  record_refinement(result, 50, outcome);
  CHECK(outcome.method == "refine");
  CHECK(outcome.converged);
  CHECK(outcome.reason == "certificate met");
  CHECK(outcome.iterations == 12);
  CHECK(*outcome.backward_error == 3e-16);
  CHECK(*outcome.residual_norm == Catch::Approx(5));
  CHECK(*outcome.relative_residual == Catch::Approx(0.1));
  CHECK(*outcome.normal_residual == Catch::Approx(1e-8));
  CHECK(*outcome.x_norm == Catch::Approx(5));
  CHECK(*outcome.residual_excess_estimate == Catch::Approx(1 / std::sqrt(0.99) - 1));
  result.residual_norm = {0, 0};
  record_refinement(result, 0, outcome);
  CHECK(*outcome.relative_residual == 0);
  CHECK(*outcome.residual_excess_estimate == 0);
}

TEST_CASE("The rank that is missing is told with the columns, one or many, and with what to do") {
  CHECK(message_of(lost(5, {}), 5, SketchPrecision::kFp32).empty());
  CHECK_THAT(message_of(lost(5, {3}), 5, SketchPrecision::kFp32),
             ContainsSubstring("fp32 sketch of A has numerical rank 4 of 5; column 3 (0-based) is zero or depends") &&
                 ContainsSubstring("leave it out") && ContainsSubstring("--rank-deficient min-norm") &&
                 ContainsSubstring("--precision fp64"));
  const std::string two = message_of(lost(5, {1, 4}), 5, SketchPrecision::kFp64);
  CHECK_THAT(two, ContainsSubstring("rank 3 of 5; columns 1, 4 (0-based) are zero or depend") &&
                      ContainsSubstring("leave them out"));
  CHECK(two.find("--precision fp64") == std::string::npos);
  std::vector<std::int64_t> many(25);
  std::iota(many.begin(), many.end(), 100);
  CHECK_THAT(message_of(lost(200, many), 200, SketchPrecision::kFp32),
             ContainsSubstring("columns 100, 101") && ContainsSubstring("118, 119 and 5 more"));
}

TEST_CASE("A coefficient out of range is named") {
  CHECK_NOTHROW(require_finite_x({1, 2, 3}));
  CHECK_NOTHROW(require_finite_x({}));
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    try {
      require_finite_x({1, 2, bad, 3});
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kNonFinite);
      CHECK_THAT(e.what(), ContainsSubstring("coefficient 2 of x"));
    }
  }
}
