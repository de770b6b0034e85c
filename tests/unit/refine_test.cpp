// Refinement on dense problems: certified, truly backward stable, bounded in passes, and never "converged" by mistake.
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "src/error.h"
#include "src/normals.h"
#include "src/refine.h"
#include "tests/support/catch.h"
#include "tests/support/dense_problem.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

FactorPrecision precision_for(double cond) { return cond >= 1e6 ? FactorPrecision::kFp64 : FactorPrecision::kFp32; }

RefineResult refine_dense(const DenseProblem& problem, const DenseSketch& sketch, const RefineOptions& options = {}) {
  return refine(sketch.factor, sketch.start, sketch.rhs_norm, options, dense_pass(problem));
}

void check_certified(const DenseProblem& problem, const DenseSketch& sketch, const RefineResult& result,
                     double tolerance) {
  CHECK(result.converged);
  CHECK(result.reason == RefineReason::kCertificateMet);
  for (std::int64_t k = 0; k < problem.r; ++k) {
    CHECK(result.backward_error[static_cast<std::size_t>(k)] <= tolerance);
    // Within the sketch's distortion of the certificate; 2e-16 is what the truth can be resolved to.
    CHECK(true_backward_error(problem, sketch.factor.exponent, result.x, k) <= 2 * tolerance + 2e-16);
  }
}

/// What no wrong factor may bring about: a claim that the truth does not bear out.
void check_not_converged(const RefineResult& result, const RefineOptions& options = {}) {
  CHECK(!result.converged);
  CHECK(result.reason != RefineReason::kCertificateMet);
  CHECK(result.passes <= options.max_passes);
  for (const double value : result.x) CHECK(std::isfinite(value));
}

/// factor with every element of R multiplied by scale.
SketchedFactor scaled(const SketchedFactor& factor, double scale) {
  const UpperTriangle& upper = upper_of(factor);
  const std::int64_t n = upper.size();
  std::vector<double> values;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) values.push_back(scale * upper.at(i, j));
  }
  return {std::make_shared<TrianglePreconditioner>(UpperTriangle(n, values.data(), n)), factor.exponent};
}

}  // namespace

TEST_CASE("refinement reaches 1e-15 at every condition, residual and oversampling, and the truth confirms it") {
  const double cond = GENERATE(1.0, 1e3, 1e6, 1e9, 1e11);
  const double residual = GENERATE(0.0, 1e-3, 1.0);
  const std::int64_t n = 40, oversample = GENERATE(2, 4, 8, 12);
  const DenseProblem problem = make_dense_problem(1200, n, 1, cond, residual, kSeed);
  const DenseSketch sketch = sketch_problem(problem, oversample * n, precision_for(cond));
  const RefineResult result = refine_dense(problem, sketch);
  INFO("cond " << cond << " residual " << residual << " d/n " << oversample << " passes " << result.passes);
  check_certified(problem, sketch, result, 1e-15);
  // As measured for docs/decisions/0016, and a few more.
  CHECK(result.passes <= (oversample == 2 ? 90 : oversample == 4 ? 50 : oversample == 8 ? 36 : 30));
  CHECK(result.rounds <= 3);
}

TEST_CASE("a tolerance of 1e-12 costs about 20 passes at d = 8 n") {
  const double cond = GENERATE(1e1, 1e4, 1e6);
  const DenseProblem problem = make_dense_problem(1200, 40, 1, cond, 1e-3, kSeed + 10);
  const DenseSketch sketch = sketch_problem(problem, 320, precision_for(cond));
  const RefineResult result = refine_dense(problem, sketch, {.tolerance = 1e-12});
  INFO("cond " << cond << " passes " << result.passes);
  check_certified(problem, sketch, result, 1e-12);
  CHECK(result.passes <= 21);
}

TEST_CASE("rows that carry most of A do not hurt") {
  const std::int64_t n = 40;
  DenseProblem problem = make_dense_problem(1200, n, 1, 1e2, 1e-1, kSeed + 20);
  for (std::int64_t j = 0; j < n; ++j) problem.a[static_cast<std::size_t>((17 * j + 5) * n + j)] += 1e3;
  const DenseSketch sketch = sketch_problem(problem, 8 * n, FactorPrecision::kFp32);
  const RefineResult result = refine_dense(problem, sketch);
  INFO("passes " << result.passes << " stretch " << result.least_stretch);
  check_certified(problem, sketch, result, 1e-15);
  CHECK(result.passes <= 36);
}

TEST_CASE("several right-hand sides share the passes, whatever each needs") {
  const std::int64_t m = 900, n = 30, r = 4;
  DenseProblem problem = make_dense_problem(m, n, r, 1e4, 1.0, kSeed + 30);
  for (std::int64_t i = 0; i < m; ++i) {
    double fitted = 0;
    for (std::int64_t j = 0; j < n; ++j) fitted += problem.a[static_cast<std::size_t>(i * n + j)];
    problem.b[static_cast<std::size_t>(i * r + 1)] = fitted;  // in the range of A
    problem.b[static_cast<std::size_t>(i * r + 2)] = 0;
    problem.b[static_cast<std::size_t>(i * r + 3)] *= 1e-9;
  }
  const DenseSketch sketch = sketch_problem(problem, 8 * n, FactorPrecision::kFp32);
  const RefineResult result = refine_dense(problem, sketch);
  INFO("passes " << result.passes);
  check_certified(problem, sketch, result, 1e-15);
  CHECK(result.passes <= 40);
  for (std::int64_t j = 0; j < n; ++j) CHECK(result.x[static_cast<std::size_t>(j * r + 2)] == 0);
}

TEST_CASE("columns scaled by 2^300 and 2^-300 change no bit of the answer but its exponents") {
  const std::int64_t n = 20;
  const DenseProblem problem = make_dense_problem(500, n, 2, 1e3, 1e-2, kSeed + 40);
  DenseProblem extreme = problem;
  std::vector<int> exponents;
  for (int j = 0; j < n; ++j) exponents.push_back(j % 3 == 0 ? 300 : j % 3 == 1 ? -300 : j);
  scale_columns(extreme, exponents);
  const RefineResult plain = refine_dense(problem, sketch_problem(problem, 160, FactorPrecision::kFp64));
  const RefineResult result = refine_dense(extreme, sketch_problem(extreme, 160, FactorPrecision::kFp64));
  CHECK(plain.converged);
  CHECK(result.converged);
  CHECK(result.passes == plain.passes);
  for (std::size_t i = 0; i < plain.x.size(); ++i) {
    CHECK(result.x[i] == std::ldexp(plain.x[i], -exponents[i / 2]));
  }
}

TEST_CASE("equal passes give equal bits, and every pass is counted") {
  const DenseProblem problem = make_dense_problem(600, 20, 2, 1e6, 1.0, kSeed + 50);
  const DenseSketch sketch = sketch_problem(problem, 160, FactorPrecision::kFp64);
  const RefineResult first = refine_dense(problem, sketch);
  std::int64_t with_b = 0, without_b = 0;
  const NormalPass inner = dense_pass(problem);
  const RefineResult second =
      refine(sketch.factor, sketch.start, sketch.rhs_norm, {}, [&](const std::vector<double>& x, bool b) {
        ++(b ? with_b : without_b);
        return inner(x, b);
      });
  CHECK(first.x == second.x);
  CHECK(second.passes == with_b + without_b);
  CHECK(second.iterations == without_b);
  CHECK(second.rounds + 1 == with_b);
}

TEST_CASE("easy and degenerate problems end at once or after one step") {
  SECTION("b = 0") {
    DenseProblem problem = make_dense_problem(100, 5, 1, 10, 1, kSeed);
    std::fill(problem.b.begin(), problem.b.end(), 0.0);
    const RefineResult result = refine_dense(problem, sketch_problem(problem, 40, FactorPrecision::kFp32));
    CHECK(result.converged);
    CHECK(result.passes == 1);
    CHECK(result.backward_error[0] == 0);
    CHECK(result.x == std::vector<double>(5, 0.0));
  }
  SECTION("b = 0 from a start that is not the solution") {
    DenseProblem problem = make_dense_problem(100, 5, 1, 10, 1, kSeed);
    std::fill(problem.b.begin(), problem.b.end(), 0.0);
    DenseSketch sketch = sketch_problem(problem, 40, FactorPrecision::kFp32);
    sketch.start.assign(5, 1.0);
    const RefineResult result = refine_dense(problem, sketch, {.max_passes = 60});
    // x = 0 is the only solution, and relative to ||x|| no x near it solves a nearby problem: a limit of the measure.
    CHECK(result.passes <= 60);
    for (const double value : result.x) CHECK(std::fabs(value) < 1e-8);
  }
  SECTION("b in the range of A, from x = 0") {
    const DenseProblem problem = make_dense_problem(300, 10, 1, 1e3, 0, kSeed);
    DenseSketch sketch = sketch_problem(problem, 80, FactorPrecision::kFp32);
    sketch.start.assign(10, 0.0);
    check_certified(problem, sketch, refine_dense(problem, sketch), 1e-15);
  }
  SECTION("b orthogonal to the range of A") {
    DenseProblem problem = make_dense_problem(300, 10, 1, 1e3, 1, kSeed);
    const std::vector<double> x = direct_solution(problem);
    for (std::int64_t i = 0; i < 300; ++i) {
      for (std::int64_t j = 0; j < 10; ++j) {
        problem.b[static_cast<std::size_t>(i)] -=
            problem.a[static_cast<std::size_t>(i * 10 + j)] * x[static_cast<std::size_t>(j)];
      }
    }
    const DenseSketch sketch = sketch_problem(problem, 80, FactorPrecision::kFp32);
    check_certified(problem, sketch, refine_dense(problem, sketch), 1e-15);
  }
  SECTION("n = 1") {
    const DenseProblem problem = make_dense_problem(50, 1, 1, 1, 1, kSeed);
    const DenseSketch sketch = sketch_problem(problem, 8, FactorPrecision::kFp32);
    const RefineResult result = refine_dense(problem, sketch);
    check_certified(problem, sketch, result, 1e-15);
    CHECK(result.passes <= 5);
  }
}

TEST_CASE("the factor of another matrix ends without a claim") {
  const DenseProblem problem = make_dense_problem(800, 30, 1, 1e4, 1e-2, kSeed + 60);
  const DenseSketch own = sketch_problem(problem, 240, FactorPrecision::kFp64);
  const DenseProblem other = make_dense_problem(800, 30, 1, GENERATE(1.0, 1e4, 1e8), 1e-2, kSeed + 61);
  DenseSketch sketch = sketch_problem(other, 240, FactorPrecision::kFp64);
  sketch.start = own.start;
  const RefineResult result = refine_dense(problem, sketch);
  INFO(reason_text(result.reason) << " passes " << result.passes << " stretch " << result.least_stretch);
  check_not_converged(result);
}

TEST_CASE("a factor larger than its matrix makes certificates that are not believed") {
  const DenseProblem problem = make_dense_problem(800, 30, 1, 1e4, 1e-2, kSeed + 70);
  DenseSketch sketch = sketch_problem(problem, 240, FactorPrecision::kFp64);
  for (const double scale : {0x1p4, 0x1p20, 0x1p60}) {
    const RefineResult result =
        refine(scaled(sketch.factor, scale), sketch.start, sketch.rhs_norm, {}, dense_pass(problem));
    INFO("scale " << scale << ": " << reason_text(result.reason) << " stretch " << result.least_stretch);
    check_not_converged(result);
    CHECK(result.reason == RefineReason::kSketchMisfit);
  }
  // Too small a factor only makes the certificate strict: no false claim, and x is as good as ever.
  const RefineResult result =
      refine(scaled(sketch.factor, 0x1p-20), sketch.start, sketch.rhs_norm, {}, dense_pass(problem));
  check_not_converged(result);
  CHECK(true_backward_error(problem, sketch.factor.exponent, result.x) <= 1e-14);
}

TEST_CASE("an FP32 sketch of an ill-conditioned matrix claims nothing that is not true") {
  const double cond = GENERATE(1e8, 1e9, 1e10, 1e11, 1e13);
  const DenseProblem problem = make_dense_problem(1200, 40, 1, cond, 1e-2, kSeed + 80);
  const DenseSketch sketch = sketch_problem(problem, 320, FactorPrecision::kFp32);
  const RefineResult result = refine_dense(problem, sketch);
  const double truth = true_backward_error(problem, sketch.factor.exponent, result.x);
  INFO("cond " << cond << ": " << reason_text(result.reason) << " passes " << result.passes << " stretch "
               << result.least_stretch << " claimed " << result.backward_error[0] << " true " << truth);
  if (result.converged) CHECK(truth <= 2e-15);
  if (cond >= 1e10) CHECK(result.reason == RefineReason::kSketchMisfit);
}

TEST_CASE("a pass with errors of its own stagnates and stops") {
  const DenseProblem problem = make_dense_problem(800, 30, 2, 1e4, 1.0, kSeed + 90);
  const DenseSketch sketch = sketch_problem(problem, 240, FactorPrecision::kFp64);
  const NormalPass inner = dense_pass(problem);
  const double noise = GENERATE(1e-4, 1e-8, 1e-12);
  std::int64_t call = 0;
  const RefineResult result =
      refine(sketch.factor, sketch.start, sketch.rhs_norm, {}, [&](const std::vector<double>& x, bool with_b) {
        NormalSums sums = inner(x, with_b);
        std::vector<double> errors(sums.gradient.size());
        normals(7, call++, DrawPurpose::kNoise, static_cast<std::int64_t>(errors.size()), errors.data());
        if (with_b) {
          for (std::size_t i = 0; i < errors.size(); ++i) sums.gradient[i] += noise * errors[i];
        }
        return sums;
      });
  INFO("noise " << noise << " passes " << result.passes);
  check_not_converged(result);
  CHECK(result.reason == RefineReason::kStagnated);
  CHECK(result.passes < 200);
}

TEST_CASE("steps of a wrong length are found out by the next pass with b") {
  const DenseProblem problem = make_dense_problem(800, 30, 1, 1e2, 1.0, kSeed + 95);
  DenseSketch sketch = sketch_problem(problem, 240, FactorPrecision::kFp64);
  sketch.start = refine_dense(problem, sketch, {.tolerance = 1e-8}).x;  // so that there is room to diverge
  const NormalPass inner = dense_pass(problem);
  const auto with_products_times = [&](double factor) {
    return refine(sketch.factor, sketch.start, sketch.rhs_norm, {}, [&](const std::vector<double>& x, bool with_b) {
      NormalSums sums = inner(x, with_b);
      if (with_b) return sums;
      for (double& value : sums.gradient) value *= factor;
      sums.residual_squares[0] *= factor;
      return sums;
    });
  };
  const RefineResult too_short = with_products_times(10), too_long = with_products_times(1.0 / 14);
  check_not_converged(too_short);
  CHECK(too_short.reason == RefineReason::kStagnated);
  check_not_converged(too_long);
  CHECK(too_long.reason == RefineReason::kDiverged);
  CHECK(too_long.x == sketch.start);
}

TEST_CASE("sums that are not finite end as diverged, with the best x so far") {
  DenseProblem problem = make_dense_problem(300, 10, 2, 1e3, 1.0, kSeed + 100);
  const DenseSketch sketch = sketch_problem(problem, 80, FactorPrecision::kFp64);
  SECTION("from the start") {
    problem.a[55] = std::numeric_limits<double>::quiet_NaN();
    const RefineResult result = refine_dense(problem, sketch);
    check_not_converged(result);
    CHECK(result.reason == RefineReason::kDiverged);
    CHECK(result.passes == 1);
    CHECK(result.x == sketch.start);
    CHECK(result.backward_error[0] == kInfinity);
  }
  SECTION("later on") {
    const std::int64_t bad = GENERATE(2, 5, 9);
    const bool in_squares = GENERATE(false, true);
    const NormalPass inner = dense_pass(problem);
    std::int64_t call = 0;
    const RefineResult result =
        refine(sketch.factor, sketch.start, sketch.rhs_norm, {}, [&](const std::vector<double>& x, bool with_b) {
          NormalSums sums = inner(x, with_b);
          if (++call == bad) (in_squares ? sums.residual_squares[1] : sums.gradient[7]) = kInfinity;
          return sums;
        });
    check_not_converged(result);
    CHECK(result.reason == RefineReason::kDiverged);
    // The other right-hand side is finished.
    CHECK(result.backward_error[0] <= 1e-15);
  }
}

TEST_CASE("the step limit is kept and leaves an x that is no worse than the start") {
  const DenseProblem problem = make_dense_problem(600, 20, 1, 1e3, 1.0, kSeed + 110);
  const DenseSketch sketch = sketch_problem(problem, 80, FactorPrecision::kFp64);
  const double before = true_backward_error(problem, sketch.factor.exponent, sketch.start);
  for (const std::int64_t limit : {0, 1, 2, 3, 10}) {
    const RefineResult result = refine_dense(problem, sketch, {.max_passes = limit});
    INFO("limit " << limit);
    // The start is judged whatever the limit.
    check_not_converged(result, {.max_passes = std::max<std::int64_t>(1, limit)});
    if (limit <= 1) CHECK(result.x == sketch.start);
    CHECK(result.reason == RefineReason::kStepLimit);
    CHECK(true_backward_error(problem, sketch.factor.exponent, result.x) <= 2 * before);  // certificates chose
  }
}

TEST_CASE("a start that is good enough is not called certified before a step has tested the factor") {
  const DenseProblem problem = make_dense_problem(600, 20, 1, 1e2, 1e-3, kSeed + 90);
  const DenseSketch sketch = sketch_problem(problem, 320, FactorPrecision::kFp64);
  for (const std::int64_t most : {0, 1, 2}) {
    const RefineResult result = refine_dense(problem, sketch, {.tolerance = 0.1, .max_passes = most});
    CHECK(!result.converged);
    CHECK(result.reason == RefineReason::kUntested);
    CHECK(result.backward_error.front() <= 0.1);
  }
  CHECK(refine_dense(problem, sketch, {.tolerance = 0.1, .max_passes = 3}).converged);
}

TEST_CASE("a ridge solves the problem with its rows appended") {
  const std::int64_t m = 600, n = 20;
  const double ridge = GENERATE(1e-6, 1e-2, 1e4);
  const DenseProblem problem = make_dense_problem(m, n, 1, 1e6, 1.0, kSeed + 120);
  DenseProblem extended = problem;
  extended.m = m + n;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) extended.a.push_back(i == j ? std::sqrt(ridge) : 0);
    extended.b.push_back(0);
  }
  const DenseSketch sketch = sketch_problem(problem, 160, FactorPrecision::kFp64, ridge);
  const RefineResult result = refine_dense(problem, sketch, {.ridge = ridge});
  INFO("ridge " << ridge << " passes " << result.passes);
  check_certified(extended, sketch, result, 1e-15);
}

TEST_CASE("a factor that cannot be inverted is refused") {
  for (const double corner : {0.0, kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    const std::vector<double> values = {1, 0, 1, corner};
    CHECK_THROWS_AS(TrianglePreconditioner(UpperTriangle(2, values.data(), 2)), Error);
  }
}
