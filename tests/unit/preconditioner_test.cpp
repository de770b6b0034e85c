// Both preconditioners against dense algebra: N is a matrix, A D N is orthonormal, damped norms by eigenvectors, and
// where rank is lost x is the pseudo-inverse's, whatever the column scales. Ratios are LAPACK's: error / (n eps size) <
// 30.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "src/certificate.h"
#include "src/error.h"
#include "src/preconditioner.h"
#include "tests/support/catch.h"
#include "tests/support/dense_matrix.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr double kRatio = 30;

UpperTriangle upper_of(const DenseMatrix& triangle) { return {triangle.cols, triangle.values.data(), triangle.rows}; }

DenseMatrix matrix_of(const Preconditioner& preconditioner) {
  const DenseMatrix unit = identity(preconditioner.rank());
  DenseMatrix n(preconditioner.size(), 0);
  for (std::int64_t j = 0; j < unit.cols; ++j) {
    n = beside(n, {preconditioner.size(), 1, preconditioner.apply(unit.column(j))});
  }
  return n;
}

DenseMatrix matrix_by_transpose(const Preconditioner& preconditioner) {
  const DenseMatrix unit = identity(preconditioner.size());
  DenseMatrix n(preconditioner.rank(), 0);
  for (std::int64_t j = 0; j < unit.cols; ++j) {
    n = beside(n, {preconditioner.rank(), 1, preconditioner.apply_transposed(unit.column(j))});
  }
  return transpose(n);
}

double ratio(double error, std::int64_t n, double size) {
  return error / (static_cast<double>(n) * kDoubleEpsilon * size);
}

/// || (R^T R + omega^2 I)^(-1/2) g || by the eigenvectors of R^T R, over the largest `rank` eigenvalues.
double damped_by_eigen(const DenseMatrix& r, const std::vector<double>& g, double omega, std::int64_t rank) {
  const Eigen eigen = symmetric_eigen(transpose(r) * r);
  double squares = 0;
  for (std::int64_t j = r.cols - rank; j < r.cols; ++j) {
    const std::vector<double> v = eigen.vectors.column(j);
    const double along = std::inner_product(v.begin(), v.end(), g.begin(), 0.0);
    squares += along * along / (eigen.values[static_cast<std::size_t>(j)] + omega * omega);
  }
  return std::sqrt(squares);
}

/// Columns of a random matrix, some of them dependent, each in its own way; and what is known of that.
struct Deficient {
  DenseMatrix matrix;        // A D
  DenseMatrix null_vectors;  // of A D, with supports that do not meet
  std::vector<std::int64_t> independent = {0, 1, 2, 4, 6};
};

/// Column 3 is column 1, column 5 is zero, column 7 = column 0 + 2 column 2 - column 4.
Deficient deficient_problem(std::int64_t rows) {
  Deficient result{random_matrix(rows, 8, kSeed), DenseMatrix(8, 3)};
  DenseMatrix& a = result.matrix;
  for (std::int64_t i = 0; i < rows; ++i) {
    a(i, 3) = a(i, 1);
    a(i, 5) = 0;
    a(i, 7) = a(i, 0) + 2 * a(i, 2) - a(i, 4);
  }
  DenseMatrix& v = result.null_vectors;
  v(1, 0) = 1;
  v(3, 0) = -1;
  v(5, 1) = 1;
  v(0, 2) = 1;
  v(2, 2) = 2;
  v(4, 2) = -1;
  v(7, 2) = -1;
  return result;
}

/// y of the least-squares solution with the least ||D y||: what the independent columns give, moved along each null
/// vector by itself. Powers of two relative to the largest of a null vector, so that no square overflows.
std::vector<double> weighted_minimum(const Deficient& problem, const std::vector<double>& b,
                                     const std::vector<int>& exponent) {
  const std::int64_t rows = problem.matrix.rows;
  DenseMatrix some(rows, 0);
  for (const std::int64_t j : problem.independent) some = beside(some, columns(problem.matrix, j, 1));
  const std::vector<double> coefficients = least_squares(some, {rows, 1, b}).values;
  std::vector<double> y(8, 0.0);
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    y[static_cast<std::size_t>(problem.independent[i])] = coefficients[i];
  }
  for (std::int64_t k = 0; k < problem.null_vectors.cols; ++k) {
    const std::vector<double> v = problem.null_vectors.column(k);
    int top = -10000;
    for (std::size_t j = 0; j < 8; ++j) top = v[j] != 0 ? std::max(top, exponent[j]) : top;
    double along = 0, squares = 0;
    for (std::size_t j = 0; j < 8; ++j) {
      const double weight = std::ldexp(1.0, 2 * (exponent[j] - top));
      along += v[j] == 0 ? 0 : weight * y[j] * v[j];
      squares += v[j] == 0 ? 0 : weight * v[j] * v[j];
    }
    for (std::size_t j = 0; j < 8; ++j) y[j] -= along / squares * v[j];
  }
  return y;
}

/// R11 and R12 of a problem with one right-hand side.
std::pair<DenseMatrix, std::vector<double>> reduced(const DenseMatrix& a, const DenseMatrix& b) {
  const DenseMatrix triangle = triangle_of(beside(a, b));
  DenseMatrix r(a.cols, a.cols);
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) r(i, j) = triangle(i, j);
  }
  std::vector<double> c = triangle.column(a.cols);
  c.resize(static_cast<std::size_t>(a.cols));
  return {r, c};
}

constexpr double kCutoff = 1e-13;

}  // namespace

TEST_CASE("A triangle's N is its inverse, forwards and transposed, and makes A D orthonormal") {
  const std::int64_t n = GENERATE(1, 2, 7, 30);
  const double cond = GENERATE(1.0, 1e4, 1e10);
  CAPTURE(n, cond);
  const DenseMatrix a = random_conditioned(3 * n + 5, n, cond, kSeed + 1), r = triangle_of(a);
  const TrianglePreconditioner preconditioner(upper_of(r));
  CHECK(preconditioner.size() == n);
  CHECK(preconditioner.rank() == n);
  const DenseMatrix apply = matrix_of(preconditioner);
  CHECK(ratio(norm(r * apply - identity(n)), n, norm(r) * norm(apply)) < kRatio);
  CHECK(ratio(norm(matrix_by_transpose(preconditioner) - apply), n, cond * norm(apply)) < kRatio);
  const DenseMatrix q = a * apply;
  CHECK(ratio(norm(transpose(q) * q - identity(n)), n, cond) < kRatio);

  const std::vector<double> norms = preconditioner.row_norms();
  REQUIRE(norms.size() == static_cast<std::size_t>(n));
  const DenseMatrix inverted = inverse(r);
  for (std::int64_t i = 0; i < n; ++i) {
    const double expected = norm(columns(transpose(inverted), i, 1));
    CHECK(ratio(std::fabs(norms[static_cast<std::size_t>(i)] - expected), n, cond * expected) < kRatio);
    CHECK(ratio(std::fabs(preconditioner.column_norm(i) - norm(columns(r, i, 1))), n, norm(r)) < kRatio);
  }
  CHECK(ratio(std::fabs(preconditioner.frobenius_norm() - norm(r)), n, norm(r)) < kRatio);
}

TEST_CASE("A triangle's damped norm is that of the eigenvectors, for omega rounded down to half an octave") {
  const std::int64_t n = 20;
  const double cond = GENERATE(1.0, 30.0, 1e3);
  const DenseMatrix r = triangle_of(random_conditioned(60, n, cond, kSeed + 2));
  const TrianglePreconditioner preconditioner(upper_of(r));
  const std::vector<double> g = random_matrix(n, 1, kSeed + 3).values;
  for (const double omega : {0.0, 1e-20, 0x1p-10, std::sqrt(0.5), 1.0, 64.0}) {  // powers of sqrt(2): kept as they are
    CAPTURE(cond, omega);
    const double expected = damped_by_eigen(r, g, omega, n);
    CHECK(ratio(std::fabs(preconditioner.damped_norm(g, omega) - expected), n, cond * cond * expected) < kRatio);
  }
  for (const double omega : {1.4, 0.99, 3e-4, 5.0}) {
    CAPTURE(cond, omega);
    const double expected = damped_by_eigen(r, g, omega, n), norm = preconditioner.damped_norm(g, omega);
    CHECK(norm >= expected * (1 - 1e-9));
    CHECK(norm <= expected * std::sqrt(2.0) * (1 + 1e-9));
  }
}

TEST_CASE("A triangle that has no inverse is refused, and one that has is taken") {
  for (const double corner : {0.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const std::vector<double> values = {1, 0, 1, corner};
    CHECK(error_kind_of([&] { TrianglePreconditioner(UpperTriangle(2, values.data(), 2)); }) == ErrorKind::kInternal);
  }
  const std::vector<double> values = {1, 7, 1, std::numeric_limits<double>::denorm_min()};
  CHECK(error_kind_of([&] { TrianglePreconditioner(UpperTriangle(2, values.data(), 2)); }) == std::nullopt);
}

TEST_CASE(
    "A spectral N of full rank makes A D orthonormal, at any column scales, and its row norms are those of R's "
    "inverse") {
  const std::int64_t n = GENERATE(1, 2, 9, 30);
  const double cond = GENERATE(1.0, 1e4, 1e10);
  CAPTURE(n, cond);
  const DenseMatrix a = random_conditioned(3 * n + 5, n, cond, kSeed + 4), r = triangle_of(a);
  std::vector<int> exponent;
  for (int j = 0; j < n; ++j) exponent.push_back(j % 3 == 0 ? 300 : j % 3 == 1 ? -300 : j);
  const SpectralPreconditioner preconditioner(upper_of(r), kCutoff, exponent);
  REQUIRE(preconditioner.rank() == n);
  CHECK(preconditioner.size() == n);
  const DenseMatrix apply = matrix_of(preconditioner), q = a * apply;
  CHECK(ratio(norm(transpose(q) * q - identity(n)), n, cond) < kRatio);
  CHECK(ratio(norm(matrix_by_transpose(preconditioner) - apply), n, norm(apply)) < kRatio);

  const std::vector<double> expected = singular_values(r);
  for (std::size_t j = 0; j < expected.size(); ++j) {
    CHECK(ratio(std::fabs(preconditioner.singular_values()[j] - expected[j]), n, expected[0]) < kRatio);
  }
  const DenseMatrix inverted = inverse(r);
  const std::vector<double> norms = preconditioner.row_norms();
  for (std::int64_t i = 0; i < n; ++i) {
    const double row = norm(columns(transpose(inverted), i, 1));
    CHECK(ratio(std::fabs(norms[static_cast<std::size_t>(i)] - row), n, cond * norm(inverted)) < kRatio);
    CHECK(ratio(std::fabs(preconditioner.column_norm(i) - norm(columns(r, i, 1))), n, norm(r)) < kRatio);
  }
  CHECK(ratio(std::fabs(preconditioner.frobenius_norm() - norm(r)), n, norm(r)) < kRatio);
  // R y = c by way of the coordinates.
  const std::vector<double> c = random_matrix(n, 1, kSeed + 5).values;
  const DenseMatrix y(n, 1, preconditioner.apply(preconditioner.project(c)));
  CHECK(ratio(norm(r * y - DenseMatrix(n, 1, c)), n, norm(r) * norm(y) + norm({n, 1, c})) < kRatio);
}

TEST_CASE("A spectral damped norm is that of the eigenvectors of the directions that are solved for") {
  const std::vector<double> g = random_matrix(8, 1, kSeed + 6).values;
  const DenseMatrix full = triangle_of(random_conditioned(40, 8, 30, kSeed + 7));
  const DenseMatrix deficient = triangle_of(deficient_problem(40).matrix);
  for (const double omega : {0.0, 1e-3, 0.7, 1.0, 5.0}) {
    CAPTURE(omega);
    const SpectralPreconditioner of_full(upper_of(full), kCutoff, std::vector<int>(8, 0));
    const double expected = damped_by_eigen(full, g, omega, 8);
    CHECK(ratio(std::fabs(of_full.damped_norm(g, omega) - expected), 8, 900 * expected) < kRatio);
    const SpectralPreconditioner of_deficient(upper_of(deficient), kCutoff, std::vector<int>(8, 0));
    REQUIRE(of_deficient.rank() == 5);
    const double part = damped_by_eigen(deficient, g, omega, 5);
    CHECK(ratio(std::fabs(of_deficient.damped_norm(g, omega) - part), 8, 900 * part) < kRatio);
  }
}

TEST_CASE("Where rank is lost x is the pseudo-inverse's, as dgelsd finds it") {
  const std::int64_t rows = 40;
  const Deficient problem = deficient_problem(rows);
  const DenseMatrix b = random_matrix(rows, 1, kSeed + 8);
  const std::vector<int> exponent = GENERATE(std::vector<int>(8, 0), std::vector<int>{1, -2, 3, 2, 0, 1, -3, 2},
                                             std::vector<int>{7, 7, 7, -3, 0, 7, 7, -5});
  const auto [r, c] = reduced(problem.matrix, b);
  const SpectralPreconditioner preconditioner(upper_of(r), kCutoff, exponent);
  REQUIRE(preconditioner.rank() == 5);
  const std::vector<double> y = preconditioner.apply(preconditioner.project(c));

  std::vector<int> inverse_exponent;
  for (const int e : exponent) inverse_exponent.push_back(-e);
  const DenseMatrix a = scaled_columns(problem.matrix, inverse_exponent);  // A itself
  const DenseMatrix x = least_squares(a, b, 1e-12);
  double error = 0;
  for (std::size_t j = 0; j < 8; ++j) error = std::hypot(error, std::ldexp(y[j], exponent[j]) - x.values[j]);
  const std::vector<double> sigma = singular_values(a);
  const double cond = sigma[0] / sigma[4];
  CAPTURE(cond, error, norm(x));
  CHECK(ratio(error, 8, cond * cond * norm(x)) < kRatio);
}

TEST_CASE(
    "Where rank is lost A D N is orthonormal still, and x has no part in the null space, at scales of 2^-300 to "
    "2^300") {
  const std::int64_t rows = 40;
  const Deficient problem = deficient_problem(rows);
  // The zero column's exponent says nothing; the others': which of the dependent ones is large in A (a low exponent).
  const std::vector<int> exponent = GENERATE(
      std::vector<int>(8, 0), std::vector<int>(8, 300), std::vector<int>{300, -300, 0, 300, -300, 0, 5, 300},
      std::vector<int>{-300, 0, -300, 0, -300, 300, 300, 0}, std::vector<int>{300, 300, 300, 300, 300, 0, -300, -300},
      std::vector<int>{-300, -200, -100, 0, 100, 200, 300, 250}, std::vector<int>{40, -40, 80, -80, 120, 0, 200, 60});
  CAPTURE(exponent);
  const DenseMatrix b = random_matrix(rows, 1, kSeed + 9);
  const auto [r, c] = reduced(problem.matrix, b);
  const SpectralPreconditioner preconditioner(upper_of(r), kCutoff, exponent);
  REQUIRE(preconditioner.rank() == 5);
  const DenseMatrix apply = matrix_of(preconditioner), q = problem.matrix * apply;
  const std::vector<double> sigma = singular_values(problem.matrix);
  const double cond = sigma[0] / sigma[4];
  CHECK(ratio(norm(transpose(q) * q - identity(5)), 8, cond * cond) < kRatio);
  CHECK(ratio(norm(matrix_by_transpose(preconditioner) - apply), 8, norm(apply)) < kRatio);

  // Null vectors of A are D v, the range in x is D N: orthogonal as far as the sizes of the terms let them be.
  for (std::int64_t k = 0; k < 3; ++k) {
    for (std::int64_t j = 0; j < 5; ++j) {
      int top = -10000;
      for (std::int64_t i = 0; i < 8; ++i) {
        if (problem.null_vectors(i, k) != 0) top = std::max(top, exponent[static_cast<std::size_t>(i)]);
      }
      double sum = 0;
      for (std::int64_t i = 0; i < 8; ++i) {
        if (problem.null_vectors(i, k) == 0) continue;
        const int power = 2 * (exponent[static_cast<std::size_t>(i)] - top);
        sum += std::ldexp(problem.null_vectors(i, k) * apply(i, j), power);
      }
      CAPTURE(k, j, sum);
      CHECK(ratio(std::fabs(sum), 8, cond * norm(apply)) < kRatio);
    }
  }

  const std::vector<double> y = preconditioner.apply(preconditioner.project(c));
  const std::vector<double> expected = weighted_minimum(problem, b.values, exponent);
  double error = 0, size = 0;
  for (std::size_t j = 0; j < 8; ++j) {
    error = std::hypot(error, y[j] - expected[j]);
    size = std::hypot(size, expected[j]);
  }
  CAPTURE(y, expected);
  CHECK(ratio(error, 8, cond * cond * size) < kRatio);
}

TEST_CASE("A matrix of zeros has no direction to solve for, and a matrix of one column one") {
  const SpectralPreconditioner nothing(upper_of(DenseMatrix(3, 3)), kCutoff, {0, 0, 0});
  CHECK(nothing.rank() == 0);
  CHECK(nothing.apply({}) == std::vector<double>(3, 0.0));
  CHECK(nothing.apply_transposed({1, 2, 3}).empty());
  CHECK(nothing.project({1, 2, 3}).empty());
  CHECK(nothing.row_norms() == std::vector<double>(3, 0.0));
  CHECK(nothing.damped_norm({1, 2, 3}, 1) == 0);
  const std::vector<double> five = {5};
  const SpectralPreconditioner one(UpperTriangle(1, five.data(), 1), kCutoff, {300});
  CHECK(one.rank() == 1);
  CHECK(one.apply(one.project({10}))[0] == Catch::Approx(2));
}
