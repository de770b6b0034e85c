// The triangular operations behind preconditioner and certificate.
#include <cmath>
#include <limits>
#include <vector>

#include "src/upper_triangle.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

/// (ld, n) column-major: small integers on and above the diagonal, NaN below.
std::vector<double> integer_triangle(std::int64_t n, std::int64_t ld) {
  std::vector<double> values(static_cast<std::size_t>(ld * n), std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      values[static_cast<std::size_t>(j * ld + i)] = static_cast<double>(i == j ? 2 : (3 * i + 5 * j) % 7 - 3);
    }
  }
  return values;
}

std::vector<double> ramp(std::int64_t n) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i % 5 - 2));
  return v;
}

}  // namespace

TEST_CASE("only the upper triangle of the leading block is read") {
  const UpperTriangle upper(3, integer_triangle(3, 5).data(), 5);
  CHECK(upper.size() == 3);
  CHECK(upper.at(1, 1) == 2);
  CHECK(upper.at(0, 1) == 2);
  CHECK(upper.at(2, 0) == 0);
  CHECK(upper.column_norm(1) == std::sqrt(8.0));
  CHECK(invertible(upper));
  double squares = 0;
  for (std::int64_t j = 0; j < 3; ++j) squares += upper.column_norm(j) * upper.column_norm(j);
  CHECK(frobenius_norm(upper) == Catch::Approx(std::sqrt(squares)));
}

TEST_CASE("products with R^T are exact on integers, and the solves undo products") {
  for (const std::int64_t n : {1, 2, 3, 17, 64}) {
    const UpperTriangle upper(n, integer_triangle(n, n + 1).data(), n + 1);
    const std::vector<double> v = ramp(n);
    std::vector<double> expected(v.size(), 0.0), product = v;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i <= j; ++i) {
        expected[static_cast<std::size_t>(j)] += upper.at(i, j) * v[static_cast<std::size_t>(i)];
      }
    }
    upper.multiply_transposed(product);
    CHECK(product == expected);
    if (n > 17) continue;  // the inverse of the larger one is huge
    // Powers of two on the diagonal and integers elsewhere: the substitution is exact.
    upper.solve_transposed(product);
    CHECK(product == v);
    std::vector<double> right(v.size(), 0.0);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i; j < n; ++j) {
        right[static_cast<std::size_t>(i)] += upper.at(i, j) * v[static_cast<std::size_t>(j)];
      }
    }
    upper.solve(right);
    CHECK(right == v);
  }
}

TEST_CASE("the shifted triangle has the Gram matrix plus the shift squared") {
  for (const std::int64_t n : {1, 2, 31, 65, 130}) {
    const UpperTriangle upper(n, integer_triangle(n, n).data(), n);
    for (const double shift : {0.0, 1e-3, 1.0, 1e6}) {
      const UpperTriangle shifted = upper.shifted(shift);
      const double scale = frobenius_norm(upper) * frobenius_norm(upper) + shift * shift;
      double worst = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t l = 0; l <= j; ++l) {
          double gram = l == j ? -shift * shift : 0, expected = 0;
          for (std::int64_t i = 0; i <= l; ++i) {
            gram += shifted.at(i, l) * shifted.at(i, j);
            expected += upper.at(i, l) * upper.at(i, j);
          }
          worst = std::max(worst, std::fabs(gram - expected));
        }
      }
      INFO("n " << n << " shift " << shift);
      CHECK(worst <= 1e-14 * scale);  // a Householder QR: a few u of the squared norm
    }
  }
}

TEST_CASE("zeros on the diagonal and numbers that are not finite are seen") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(!invertible(UpperTriangle(2, std::vector<double>{1, 0, 1, 0}.data(), 2)));
  CHECK(!invertible(UpperTriangle(2, std::vector<double>{1, 0, infinity, 1}.data(), 2)));
  CHECK(invertible(UpperTriangle(1, std::vector<double>{-1e-300}.data(), 1)));
}
