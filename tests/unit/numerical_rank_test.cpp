// Numerical rank of the reduced problem: deficiencies that no R_jj shows, cut-offs, and solutions by the spectrum.
// What a triangle of full rank gives is in reduced_solver_test.
#include <algorithm>
#include <cmath>
#include <vector>

#include "src/reduced_solver.h"
#include "src/sketch_factor.h"
#include "tests/support/catch.h"
#include "tests/support/dense_matrix.h"

using namespace tallsketch;
using Catch::Approx;

namespace {

constexpr std::uint32_t kSeed = 20240229;
constexpr double kUnitRoundoff = 0x1p-24;

/// A factor whose triangle is given, of a sketch in FP32 or FP64: (n, n), and one right-hand side.
TriangularFactor factor_of(const DenseMatrix& upper, const std::vector<double>& c, double unit_roundoff) {
  const std::int64_t n = upper.cols;
  TriangularFactor factor{n,  1, unit_roundoff, FactorMethod::kQr, std::vector<int>(static_cast<std::size_t>(n + 1)),
                          {}, {}};
  set_upper(above(beside(upper, {n, 1, c}), DenseMatrix(1, n + 1)).values, factor);
  return factor;
}

/// Kahan's: every diagonal element is large beside its column, the least singular value is not.
DenseMatrix kahan(std::int64_t n, double cosine) {
  DenseMatrix upper(n, n);
  const double sine = std::sqrt(1 - cosine * cosine);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) upper(i, j) = std::pow(sine, double(i)) * (i == j ? 1 : -cosine);
  }
  return upper;
}

}  // namespace

TEST_CASE(
    "A deficiency that no R_jj shows is found: Kahan's matrix has rank n - 1, by the triangle and by its spectrum") {
  const std::int64_t n = 60, rows = 240;
  const DenseMatrix upper = kahan(n, 0.4);
  const std::vector<double> sigma = singular_values(upper), c = random_matrix(n, 1, kSeed).values;
  const double cutoff = 2 * std::sqrt(double(rows)) * kUnitRoundoff;
  for (std::int64_t j = 0; j < n; ++j) REQUIRE(upper(j, j) > 10 * cutoff * norm(columns(upper, j, 1)));
  REQUIRE(sigma[58] > 10 * cutoff * sigma[0]);
  REQUIRE(sigma[59] < 0.1 * cutoff * sigma[0]);

  const TriangularFactor factor = factor_of(upper, c, kUnitRoundoff);
  const ReducedSolution triangle = solve_reduced(factor, rows);
  CHECK(triangle.rank == n - 1);
  CHECK(triangle.dependent == std::vector<std::int64_t>{0});  // its null vector falls from the first column to the last
  CHECK(triangle.x.empty());
  CHECK(triangle.preconditioner == nullptr);
  CHECK(std::isinf(triangle.condition));

  const ReducedSolution spectral = solve_reduced(factor, rows, ReducedMethod::kSpectral);
  CHECK(spectral.by == ReducedMethod::kSpectral);
  CHECK(spectral.rank == n - 1);
  CHECK(spectral.dependent.size() == 1);
  CHECK(std::isinf(spectral.condition));
  REQUIRE(spectral.preconditioner != nullptr);
  CHECK(spectral.preconditioner->rank() == n - 1);
  const DenseMatrix expected = least_squares(upper, {n, 1, c}, cutoff);
  const double error = norm(DenseMatrix(n, 1, spectral.x) - expected);
  CHECK(error / (double(n) * kDoubleEpsilon * (sigma[0] / sigma[58]) * norm(expected)) < 30);
  // To FP64 it has full rank, and both find it.
  const TriangularFactor fine = factor_of(upper, c, 0x1p-53);
  for (const ReducedMethod method : {ReducedMethod::kTriangle, ReducedMethod::kSpectral}) {
    const ReducedSolution solution = solve_reduced(fine, rows, method);
    CHECK(solution.rank == n);
    CHECK(solution.dependent.empty());
    CHECK(solution.condition <= 1.001 * sigma[0] / sigma[59]);
    CHECK(solution.condition >= 0.7 * sigma[0] / sigma[59]);
  }
}

TEST_CASE(
    "Columns that a hidden deficiency makes dependent are found, as many as rank lacks, and none that others need") {
  // Two Kahan blocks side by side, disjoint: two singular values are lost, and no diagonal element is small.
  const std::int64_t half = 60, n = 2 * half, rows = 480;
  const DenseMatrix block = kahan(half, 0.4);
  DenseMatrix upper(n, n);
  for (std::int64_t j = 0; j < half; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) upper(i, j) = upper(half + i, half + j) = block(i, j);
  }
  const TriangularFactor factor =
      factor_of(upper, std::vector<double>(static_cast<std::size_t>(n), 1.0), kUnitRoundoff);
  const ReducedSolution spectral = solve_reduced(factor, rows, ReducedMethod::kSpectral);
  CHECK(spectral.rank == n - 2);
  CHECK(spectral.dependent.size() == 2);
  const ReducedSolution triangle = solve_reduced(factor, rows);
  CHECK(triangle.rank == n - 2);
  CHECK(triangle.dependent == spectral.dependent);
  REQUIRE(std::is_sorted(spectral.dependent.begin(), spectral.dependent.end()));
  for (const std::int64_t column : spectral.dependent) {
    // Each one is what the others can do without: what is left has one null direction less.
    DenseMatrix rest(n, 0);
    for (std::int64_t j = 0; j < n; ++j) {
      if (j != column) rest = beside(rest, columns(upper, j, 1));
    }
    const std::vector<double> sigma = singular_values(rest);
    const double cutoff = 2 * std::sqrt(double(rows)) * kUnitRoundoff;
    CHECK(std::count_if(sigma.begin(), sigma.end(), [&](double s) { return s <= cutoff * sigma[0]; }) == 1);
  }
}

TEST_CASE("The cut-off grows with the rows that were factored, on both sides of it, and with nothing else") {
  for (const std::int64_t rows : {2, 64, 4096}) {
    for (const double roundoff : {0x1p-24, 0x1p-53}) {
      const double cutoff = 2 * std::sqrt(double(rows)) * roundoff;
      // Beside a column of length 1; the condition is 2 / corner, so that the second case is lost by that alone.
      for (const double share : {0.99, 1.9, 2.1}) {
        const double corner = share * cutoff;
        const DenseMatrix upper(2, 2, {1, 0, std::sqrt(1 - corner * corner), corner});
        const TriangularFactor factor = factor_of(upper, {1, 1}, roundoff);
        for (const ReducedMethod method : {ReducedMethod::kTriangle, ReducedMethod::kSpectral}) {
          const ReducedSolution solution = solve_reduced(factor, rows, method);
          CAPTURE(rows, roundoff, share);
          CHECK(solution.rank == (share < 2 ? 1 : 2));
          CHECK(solution.dependent.size() == (share < 2 ? 1 : 0));
        }
      }
    }
  }
  // A Gram matrix of one, and of 2^40 copies of the rows: the same factor, the same verdict.
  DenseMatrix a = random_matrix(30, 4, kSeed + 9);
  for (std::int64_t i = 0; i < 30; ++i) a(i, 2) = a(i, 0) + 1e-6 * a(i, 2);
  for (const double copies : {1.0, 1024.0, 0x1p40}) {
    DenseMatrix gram = transpose(a) * a;
    for (double& value : gram.values) value *= copies;
    const auto factor = cholesky_of_gram(gram.values, 3, 1, {0x1p-53, 1, 0, {}});
    REQUIRE(factor);
    const ReducedSolution solution = solve_reduced(*factor, factor->n);
    CHECK(solution.rank == 3);
    CHECK(solution.condition > 1e5);
  }
}

TEST_CASE("By the spectrum x of full rank is that of the triangle, also with scales and several right-hand sides") {
  const std::int64_t d = 90, n = 12, r = 3;
  std::vector<int> powers;
  for (int j = 0; j < n + r; ++j) powers.push_back(5 * j - 30);
  const DenseMatrix sketch = scaled_columns(random_matrix(d, n + r, kSeed + 11), powers);
  const TriangularFactor factor = qr_of_sketch(row_major(sketch), d, n, r, 0.5);
  const ReducedSolution triangle = solve_reduced(factor, d);
  const ReducedSolution spectral = solve_reduced(factor, d, ReducedMethod::kSpectral);
  CHECK(spectral.rank == n);
  CHECK(spectral.dependent.empty());
  for (std::int64_t k = 0; k < r; ++k) {
    double error = 0, size = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(j * r + k);
      const int e = -factor.exponent[static_cast<std::size_t>(j)];
      error = std::hypot(error, std::ldexp(spectral.x[at] - triangle.x[at], e));
      size = std::hypot(size, std::ldexp(triangle.x[at], e));
    }
    CHECK(error / (double(n) * kDoubleEpsilon * spectral.condition * size) < 30);
  }
  CHECK(spectral.spread == Approx(triangle.spread).epsilon(0.3));  // ||N^T D v|| is the same but for rounding
}

TEST_CASE("By the spectrum dependent and zero columns are named as the triangle names them, and A = 0 has x = 0") {
  DenseMatrix a = random_matrix(64, 9, kSeed + 10);
  for (std::int64_t i = 0; i < 64; ++i) {
    a(i, 2) = 0;
    a(i, 5) = 3 * a(i, 1);
    a(i, 7) = a(i, 0) - a(i, 4);
  }
  const TriangularFactor factor = qr_of_sketch(row_major(a), 64, 8, 1, 1.0);
  const ReducedSolution triangle = solve_reduced(factor, 64);
  const ReducedSolution spectral = solve_reduced(factor, 64, ReducedMethod::kSpectral);
  CHECK(triangle.dependent == std::vector<std::int64_t>{2, 5, 7});
  CHECK(spectral.dependent == triangle.dependent);
  CHECK(spectral.rank == 5);
  CHECK(spectral.x[2] == Approx(0).margin(1e-13));
  const DenseMatrix expected = least_squares(columns(a, 0, 8), columns(a, 8, 1), 1e-12);
  CHECK(norm(DenseMatrix(8, 1, spectral.x) - expected) < 1e-12 * norm(expected));

  const TriangularFactor nothing = qr_of_sketch(std::vector<double>(64 * 3, 0.0), 64, 2, 1, 1.0);
  const ReducedSolution none = solve_reduced(nothing, 64, ReducedMethod::kSpectral);
  CHECK(none.rank == 0);
  CHECK(none.dependent == std::vector<std::int64_t>{0, 1});
  CHECK(none.x == std::vector<double>{0, 0});
}
