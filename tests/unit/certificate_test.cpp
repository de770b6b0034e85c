// The certificate against the Karlson-Walden formula by SVD and against the true backward error.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <lapacke.h>

#include "src/certificate.h"
#include "src/normals.h"
#include "tests/support/catch.h"
#include "tests/support/dense_problem.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;

/// What refine() would know of x, for the problem's own column scales.
NormalResidual residual_of(const DenseProblem& problem, const std::vector<int>& exponent,
                           const std::vector<double>& x) {
  NormalSums sums = dense_pass(problem)(x, true);
  NormalResidual residual;
  residual.residual_norm = std::sqrt(sums.residual_squares[0]);
  std::vector<double> y;
  for (std::size_t j = 0; j < x.size(); ++j) {
    residual.gradient.push_back(std::ldexp(sums.gradient[j], exponent[j]));
    y.push_back(std::ldexp(x[j], -exponent[j]));
  }
  residual.solution_norm = norm_of(y);
  residual.rhs_norm = norm_of(problem.b);
  return residual;
}

double preconditioned_norm(const UpperTriangle& upper, std::vector<double> gradient) {
  upper.solve_transposed(gradient);
  return norm_of(gradient);
}

/// The formula of the header, by SVD of R.
double estimate_by_svd(const UpperTriangle& upper, const NormalResidual& of) {
  const std::int64_t n = upper.size();
  std::vector<double> matrix, values(static_cast<std::size_t>(n)), left(static_cast<std::size_t>(n * n)), right(left);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) matrix.push_back(upper.at(i, j));
  }
  const auto size = static_cast<lapack_int>(n);
  REQUIRE(LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', size, size, matrix.data(), size, values.data(), left.data(), size,
                         right.data(), size) == 0);
  const double frobenius = frobenius_norm(upper);
  const double scale = std::hypot(of.solution_norm, of.rhs_norm / frobenius), omega = of.residual_norm / scale;
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double projection = 0;  // row i of V^T times g
    for (std::int64_t j = 0; j < n; ++j) {
      projection += right[static_cast<std::size_t>(j * n + i)] * of.gradient[static_cast<std::size_t>(j)];
    }
    const double term = projection / std::hypot(values[static_cast<std::size_t>(i)], omega);
    squares += term * term;
  }
  return std::sqrt(squares) / (scale * frobenius);
}

/// The direct solution with relative errors of the given size.
std::vector<double> disturbed_solution(const DenseProblem& problem, double size) {
  std::vector<double> x = direct_solution(problem), errors(x.size());
  normals(kSeed, 3, DrawPurpose::kNoise, problem.n, errors.data());
  const double norm = norm_of(x);
  for (std::size_t j = 0; j < x.size(); ++j) x[j] += size * norm * errors[j];
  return x;
}

/// R of the matrix itself.
SketchedFactor exact_factor(const DenseProblem& problem) {
  const std::int64_t n = problem.n;
  std::vector<double> a = problem.a, tau(static_cast<std::size_t>(n)), upper(static_cast<std::size_t>(n * n));
  const auto size = static_cast<lapack_int>(n);
  REQUIRE(LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, static_cast<lapack_int>(problem.m), size, a.data(), size, tau.data()) == 0);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i)
      upper[static_cast<std::size_t>(j * n + i)] = a[static_cast<std::size_t>(i * n + j)];
  }
  return {std::make_shared<TrianglePreconditioner>(UpperTriangle(n, upper.data(), n)),
          std::vector<int>(static_cast<std::size_t>(n), 0)};
}

}  // namespace

TEST_CASE("the estimate is the Karlson-Walden formula, at most sqrt(2) above it, and the bound bounds the formula") {
  const double cond = GENERATE(1.0, 1e3, 1e6, 1e9), residual = GENERATE(0.0, 1e-6, 1e-3, 1.0);
  const double error = GENERATE(1e-3, 1e-8, 1e-13);
  const DenseProblem problem = make_dense_problem(400, 25, 1, cond, residual, kSeed);
  const SketchedFactor factor = exact_factor(problem);
  const NormalResidual at = residual_of(problem, factor.exponent, disturbed_solution(problem, error));
  BackwardErrorCertificate certificate(*factor.preconditioner);
  const double formula = estimate_by_svd(upper_of(factor), at), estimate = certificate.estimate(at);
  INFO("cond " << cond << " residual " << residual << " error " << error);
  constexpr double kRounding = 1e-6;  // u cond, generously
  CHECK(estimate >= (1 - kRounding) * formula);
  CHECK(estimate <= (1 + kRounding) * std::sqrt(2.0) * formula);
  const double bound = certificate.bound(at, preconditioned_norm(upper_of(factor), at.gradient));
  CHECK(bound >= (1 - kRounding) * formula);
  CHECK(certificate.estimate(at) == estimate);  // whether a triangle is made or kept
}

TEST_CASE("the estimate is the true backward error, within sqrt(2), and within the distortion from a sketch") {
  const double cond = GENERATE(1.0, 1e3, 1e6, 1e9), residual = GENERATE(0.0, 1e-3, 1.0, 30.0);
  const double error = GENERATE(1e-1, 1e-4, 1e-8, 1e-11);
  const DenseProblem problem = make_dense_problem(600, 25, 1, cond, residual, kSeed + 1);
  const std::vector<double> x = disturbed_solution(problem, error);
  INFO("cond " << cond << " residual " << residual << " error " << error);

  const SketchedFactor exact = exact_factor(problem);
  const double truth = true_backward_error(problem, exact.exponent, x);
  const double estimate =
      BackwardErrorCertificate(*exact.preconditioner).estimate(residual_of(problem, exact.exponent, x));
  if (truth > 1e-14) {  // the SVD resolves it to a few per cent
    CHECK(estimate >= 0.95 / std::sqrt(2.0) * truth);
    CHECK(estimate <= 1.05 * 2 * truth);  // sqrt(2) of the formula, sqrt(2) of the rounded omega
  }

  const SketchedFactor sketched = sketch_problem(problem, 200, FactorPrecision::kFp64).factor;
  const double scaled_truth = true_backward_error(problem, sketched.exponent, x);
  const double sketched_estimate =
      BackwardErrorCertificate(*sketched.preconditioner).estimate(residual_of(problem, sketched.exponent, x));
  if (scaled_truth > 1e-14) {
    constexpr double kDistortion = 2.1;  // (1 + e) / (1 - e), e = sqrt(n / d) = 0.35
    CHECK(sketched_estimate >= 0.95 / std::sqrt(2.0) / kDistortion * scaled_truth);
    CHECK(sketched_estimate <= 1.05 * 2 * kDistortion * scaled_truth);
  }
}

TEST_CASE("powers of two on A, b and x leave the certificate as it is") {
  const DenseProblem problem = make_dense_problem(200, 10, 1, 1e3, 1e-2, kSeed + 2);
  const SketchedFactor factor = exact_factor(problem);
  const NormalResidual at = residual_of(problem, factor.exponent, disturbed_solution(problem, 1e-6));
  const double estimate = BackwardErrorCertificate(*factor.preconditioner).estimate(at);
  for (const int e : {-200, -1, 1, 200}) {
    NormalResidual larger = at;  // b and x times 2^e
    for (double& value : larger.gradient) value = std::ldexp(value, e);
    larger.residual_norm = std::ldexp(larger.residual_norm, e);
    larger.solution_norm = std::ldexp(larger.solution_norm, e);
    larger.rhs_norm = std::ldexp(larger.rhs_norm, e);
    CHECK(BackwardErrorCertificate(*factor.preconditioner).estimate(larger) == Catch::Approx(estimate).epsilon(1e-14));
  }
}

TEST_CASE("solutions and empty right-hand sides have no backward error, and a shift may be a power of two itself") {
  const std::vector<double> identity = {1, 0, 0, 1};
  const TrianglePreconditioner preconditioner(UpperTriangle(2, identity.data(), 2));
  BackwardErrorCertificate certificate(preconditioner);
  CHECK(certificate.estimate({{0, 0}, 0, 0, 0}) == 0);
  CHECK(certificate.estimate({{0, 0}, 1, 2, 3}) == 0);
  CHECK(certificate.bound({{0, 0}, 1, 2, 3}, 0) == 0);
  // b = 0: scale = ||y|| = 2, omega = 1 / 2: || g || / sqrt(1 + 1/4) / (2 sqrt(2)).
  CHECK(certificate.estimate({{3, 4}, 1, 2, 0}) == Catch::Approx(5 / std::sqrt(1.25) / (2 * std::sqrt(2.0))));
  // y = 0: scale = ||b|| / ||R||_F = 1, omega = ||r|| = 2.
  CHECK(certificate.estimate({{3, 4}, 2, 0, std::sqrt(2.0)}) == Catch::Approx(5 / std::sqrt(5.0) / std::sqrt(2.0)));
  // r = 0: R itself.
  CHECK(certificate.estimate({{3, 4}, 0, 1, 0}) == Catch::Approx(5 / std::sqrt(2.0)));
}

TEST_CASE("norms neither overflow nor underflow") {
  CHECK(norm_of({}) == 0);
  CHECK(norm_of({0, 0}) == 0);
  CHECK(norm_of({3e200, -4e200}) == Catch::Approx(5e200));
  CHECK(norm_of({3e-200, 4e-200}) == Catch::Approx(5e-200));
  CHECK(std::isnan(norm_of({1, std::nan("")})));
}
