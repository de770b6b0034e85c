// The triangle of the reduced problem: Cholesky against QR, ridges against the stacked problem, rows left out, and what
// the sketch says of a residual. Ratios are LAPACK's: error / (n eps size) < 30, eps of the format that is factored.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "src/error.h"
#include "src/sketch_factor.h"
#include "tests/support/catch.h"
#include "tests/support/dense_matrix.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;
constexpr double kRatio = 30;

template <class T>
std::vector<T> sketch_of(const DenseMatrix& a) {
  const std::vector<double> wide = row_major(a);
  return {wide.begin(), wide.end()};
}

/// The leading (cols, cols) triangle, zeros below it.
DenseMatrix upper_part(const TriangularFactor& factor, std::int64_t cols) {
  const std::int64_t ld = factor.n + factor.r;
  const std::vector<double> whole = upper_of(factor);
  DenseMatrix upper(cols, cols);
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) upper(i, j) = whole[static_cast<std::size_t>(j * ld + i)];
  }
  return upper;
}

/// Largest error of R^T R against M^T M, M = matrix with column j times 2^exponent[j]: relative to the norms of the two
/// columns of each element, over n eps.
double gram_ratio(const TriangularFactor& factor, const DenseMatrix& matrix, std::int64_t cols, double eps) {
  const DenseMatrix scaled = scaled_columns(matrix, factor.exponent), r = upper_part(factor, cols);
  const DenseMatrix found = transpose(r) * r, truth = transpose(scaled) * scaled;
  double worst = 0;
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const double size = std::sqrt(truth(i, i) * truth(j, j));
      if (size > 0) worst = std::max(worst, std::fabs(found(i, j) - truth(i, j)) / size);
    }
  }
  return worst / (static_cast<double>(cols) * eps);
}

/// Upper triangle of m^T m; NaN below it, which nobody may read.
std::vector<double> gram_of(const DenseMatrix& m) {
  DenseMatrix gram = transpose(m) * m;
  for (std::int64_t j = 0; j < m.cols; ++j) {
    for (std::int64_t i = j + 1; i < m.cols; ++i) gram(i, j) = std::nan("");
  }
  return gram.values;
}

/// What a ridge appends to [A | b] whose column j was multiplied by 2^exponents[j].
DenseMatrix ridge_rows(double lambda, const std::vector<int>& exponents, std::int64_t n, std::int64_t r) {
  DenseMatrix rows(n, n + r);
  for (std::int64_t j = 0; j < n; ++j) {
    rows(j, j) = std::ldexp(std::sqrt(lambda), exponents.empty() ? 0 : exponents[static_cast<std::size_t>(j)]);
  }
  return rows;
}

DenseMatrix times(double scale, DenseMatrix a) {
  for (double& value : a.values) value *= scale;
  return a;
}

/// Without the rows that are held back.
DenseMatrix kept_rows(const DenseMatrix& a, const CheckRows& unused) {
  std::vector<double> kept;
  std::int64_t rows = 0;
  const std::vector<double> all = row_major(a);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (unused.holds(i)) continue;
    kept.insert(kept.end(), all.begin() + i * a.cols, all.begin() + (i + 1) * a.cols);
    ++rows;
  }
  return from_row_major(rows, a.cols, kept);
}

}  // namespace

TEST_CASE("Cholesky of the Gram matrix is the R of the QR, and of b the norm that is left") {
  const auto [n, r] = GENERATE(std::pair<int, int>{1, 0}, std::pair<int, int>{1, 1}, std::pair<int, int>{7, 3},
                               std::pair<int, int>{30, 1}, std::pair<int, int>{12, 0});
  const double scale = GENERATE(1.0, 0.5, 1 / std::sqrt(3.0));
  CAPTURE(n, r, scale);
  const DenseMatrix m = random_matrix(3 * n + 9, n + r, kSeed);
  const auto factor = cholesky_of_gram(gram_of(m), n, r, {kDoubleEpsilon / 2, scale, 0, {}});
  REQUIRE(factor);
  CHECK(factor->method == FactorMethod::kCholesky);
  CHECK(factor->unit_roundoff == kDoubleEpsilon / 2);
  CHECK(factor->n == n);
  CHECK(factor->r == r);
  CHECK(gram_ratio(*factor, times(scale, m), n, kDoubleEpsilon) < kRatio);
  const TriangularFactor qr = qr_of_sketch(sketch_of<double>(m), m.rows, n, r, scale);
  CHECK(gram_ratio(qr, times(scale, m), n + r, kDoubleEpsilon) < kRatio);
  for (std::int64_t k = n; k < n + r; ++k) {
    // R12, but for the exponents and the signs that the two choose.
    const auto at = [&](const TriangularFactor& f, std::int64_t i) {
      return std::ldexp(upper_of(f)[static_cast<std::size_t>(k * (n + r) + i)],
                        -f.exponent[static_cast<std::size_t>(k)]);
    };
    const double size = scale * norm(columns(m, k, 1));
    double rest = 0;  // of the QR, below its first n rows
    for (std::int64_t i = 0; i < n; ++i) {
      CHECK(std::fabs(std::fabs(at(*factor, i)) - std::fabs(at(qr, i))) < kRatio * n * kDoubleEpsilon * 10 * size);
    }
    for (std::int64_t i = n; i <= k; ++i) rest = std::hypot(rest, at(qr, i));
    CHECK(at(*factor, k) >= 0);
    CHECK(std::fabs(at(*factor, k) - rest) < kRatio * n * kDoubleEpsilon * size * size / rest);
    for (std::int64_t i = n; i < k; ++i) CHECK(at(*factor, i) == 0);
  }
  for (std::int64_t j = 0; j < n + r; ++j) {
    for (std::int64_t i = j + 1; i < n + r; ++i) {
      CHECK(upper_of(*factor)[static_cast<std::size_t>(j * (n + r) + i)] == 0);
    }
  }
}

TEST_CASE("Columns of 2^300 and 2^-300 leave every bit of both factors but their exponents") {
  const std::int64_t n = 6, r = 2;
  const DenseMatrix m = random_matrix(40, n + r, kSeed + 1);
  const std::vector<int> powers = {300, -300, 0, 17, -300, 300, 300, -300};
  const DenseMatrix extreme = scaled_columns(m, powers);
  const auto same = [&](const TriangularFactor& plain, const TriangularFactor& scaled) {
    CHECK(upper_of(scaled) == upper_of(plain));
    for (std::size_t j = 0; j < powers.size(); ++j) CHECK(scaled.exponent[j] == plain.exponent[j] - powers[j]);
  };
  same(qr_of_sketch(sketch_of<double>(m), 40, n, r, 0.5), qr_of_sketch(sketch_of<double>(extreme), 40, n, r, 0.5));
  const GramOrigin origin{kDoubleEpsilon / 2, 0.5, 0, {}};
  same(*cholesky_of_gram(gram_of(m), n, r, origin), *cholesky_of_gram(gram_of(extreme), n, r, origin));
}

TEST_CASE("Exponents of a Gram matrix bring the columns' norms to [0.5, 1), and zero columns none") {
  const std::vector<double> diagonal = {1, 4, 0x1p-600, 0x1p601, 0, 0.24999, 0.25};
  const std::vector<int> exponents = gram_exponents(diagonal);
  CHECK(exponents == std::vector<int>{-1, -2, 299, -301, 0, 1, 0});
  for (std::size_t j = 0; j < diagonal.size(); ++j) {
    const double size = std::ldexp(std::sqrt(diagonal[j]), exponents[j]);
    CHECK((diagonal[j] == 0 || (size >= 0.5 && size < 1)));
  }
}

TEST_CASE("A ridge is rows below A, in QR and in Cholesky, also for columns that were scaled") {
  const std::int64_t n = 9, r = 2;
  const double lambda = GENERATE(1e-8, 1e-2, 1.0, 1e6), scale = GENERATE(1.0, 0.5);
  const std::vector<int> exponents = GENERATE(std::vector<int>{}, std::vector<int>{3, -2, 0, 0, 5, -6, 1, 1, 0, 4, -3},
                                              std::vector<int>{100, -100, 30, 0, 0, -30, 0, 0, 0, 7, 7});
  CAPTURE(lambda, scale, exponents);
  // The sketch as it is after scaling: [A | b] 2^exponents.
  const DenseMatrix plain = random_matrix(40, n + r, kSeed + 2);
  const DenseMatrix m = exponents.empty() ? plain : scaled_columns(plain, exponents);
  const DenseMatrix stacked = above(times(scale, m), ridge_rows(lambda, exponents, n, r));

  TriangularFactor qr = qr_of_sketch(sketch_of<double>(m), m.rows, n, r, scale);
  add_ridge(lambda, exponents, qr);
  CHECK(gram_ratio(qr, stacked, n + r, kDoubleEpsilon) < kRatio);

  const GramOrigin origin{kDoubleEpsilon / 2, scale, lambda, exponents};
  const auto cholesky = cholesky_of_gram(gram_of(m), n, r, origin);
  REQUIRE(cholesky);
  CHECK(gram_ratio(*cholesky, stacked, n, kDoubleEpsilon) < kRatio);
  // y of both, in their scaled columns, against a dense solution.
  for (const TriangularFactor* factor : {&std::as_const(qr), &*cholesky}) {
    const DenseMatrix scaled = scaled_columns(stacked, factor->exponent);
    const DenseMatrix expected = least_squares(columns(scaled, 0, n), columns(scaled, n, r));
    const std::vector<double> sigma = singular_values(columns(scaled, 0, n));
    const double cond = sigma.front() / sigma.back();
    DenseMatrix c(n, r);
    for (std::int64_t k = 0; k < r; ++k) {
      for (std::int64_t i = 0; i < n; ++i) c(i, k) = upper_of(*factor)[static_cast<std::size_t>((n + k) * (n + r) + i)];
    }
    const double error = norm(inverse(upper_part(*factor, n)) * c - expected);
    const double size = norm(columns(scaled, n, r)) / sigma.back();
    CHECK(error / (double(n) * kDoubleEpsilon * cond * size) < kRatio);
  }
}

TEST_CASE("No ridge changes nothing, and a ridge makes dependent columns independent") {
  const std::int64_t n = 4;
  DenseMatrix m = random_matrix(30, n + 1, kSeed + 3);
  for (std::int64_t i = 0; i < m.rows; ++i) m(i, 2) = 4 * m(i, 0);
  TriangularFactor qr = qr_of_sketch(sketch_of<double>(m), m.rows, n, 1, 1);
  const std::vector<double> before = upper_of(qr);
  add_ridge(0, {}, qr);
  CHECK(upper_of(qr) == before);
  add_ridge(1, {}, qr);
  CHECK(gram_ratio(qr, above(m, ridge_rows(1, {}, n, 1)), n + 1, kDoubleEpsilon) < kRatio);
  const auto cholesky = cholesky_of_gram(gram_of(m), n, 1, {kDoubleEpsilon / 2, 1, 1, {}});
  REQUIRE(cholesky);
  CHECK(gram_ratio(*cholesky, above(m, ridge_rows(1, {}, n, 1)), n, kDoubleEpsilon) < kRatio);
}

TEST_CASE("Cholesky has no factor of dependent and of zero columns, and has one of columns that FP64 tells apart") {
  const std::int64_t n = 5;
  const GramOrigin origin{kDoubleEpsilon / 2, 1, 0, {}};
  const DenseMatrix full = random_matrix(30, n + 1, kSeed + 4);
  DenseMatrix m = full;
  for (std::int64_t i = 0; i < m.rows; ++i) m(i, 3) = 0;
  CHECK(!cholesky_of_gram(gram_of(m), n, 1, origin));
  // Integers: the Gram matrix is exact, and so is the pivot, but for what the square roots round.
  for (const double size : {1.0, 1024.0, 0x1p-300, 0x1p300}) {
    DenseMatrix integers(30, n + 1);
    for (std::int64_t j = 0; j <= n; ++j) {
      for (std::int64_t i = 0; i < 30; ++i) integers(i, j) = std::round(4 * full(i, j));
    }
    for (std::int64_t i = 0; i < 30; ++i) integers(i, 4) = 0;
    for (std::int64_t i = 0; i < 30; ++i) integers(i, 2) = size * integers(i, 1);
    CHECK(!cholesky_of_gram(gram_of(integers), n, 1, origin));
  }
  m = full;
  for (std::int64_t i = 0; i < m.rows; ++i) m(i, 3) = m(i, 1) + 1e-6 * full(i, 3);
  const auto factor = cholesky_of_gram(gram_of(m), n, 1, origin);
  REQUIRE(factor);
  CHECK(gram_ratio(*factor, m, n, kDoubleEpsilon) < kRatio);
}

TEST_CASE("b in the range of A leaves a residual of rounding, never a NaN, and b = 0 none") {
  const std::int64_t n = 8, r = 3;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    DenseMatrix m = random_matrix(50, n + r, kSeed + 100 + seed);
    for (std::int64_t i = 0; i < m.rows; ++i) {
      m(i, n) = m(i, 2);
      m(i, n + 1) = m(i, 0) - 3 * m(i, 5) + 1e3 * m(i, 7);
      m(i, n + 2) = 0;
    }
    const auto factor = cholesky_of_gram(gram_of(m), n, r, {kDoubleEpsilon / 2, 0.5, 0, {}});
    REQUIRE(factor);
    for (std::int64_t k = n; k < n + r; ++k) {
      const double rest = upper_of(*factor)[static_cast<std::size_t>(k * (n + r) + k)];
      CHECK(rest >= 0);
      // A square is known to n eps of the columns' own, which have length 1 at most.
      CHECK(rest * rest < kRatio * n * kDoubleEpsilon);
    }
    CHECK(upper_of(*factor).back() == 0);
  }
}

TEST_CASE("Unused rows leave exactly the QR of the sketch with zeros there, and R of the sketch without them") {
  const std::int64_t d = 96, n = 10, r = 2;
  const std::int64_t count = GENERATE(0, 1, 8, 40, 80);
  const CheckRows unused = make_check_rows(d, count);
  const DenseMatrix m = random_matrix(d, n + r, kSeed + 5);
  const auto check = [&](auto element, double eps) {
    using T = decltype(element);
    const std::vector<T> sketch = sketch_of<T>(m);
    const TriangularFactor factor = qr_of_sketch(sketch, d, n, r, 0.5, unused);
    const DenseMatrix rounded = from_row_major(d, n + r, std::vector<double>(sketch.begin(), sketch.end()));
    CHECK(gram_ratio(factor, times(0.5, kept_rows(rounded, unused)), n + r, eps) < kRatio);
    // What the unused rows hold has no influence but by the exponents: these rows are no larger than the others.
    std::vector<T> other = sketch;
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t j = 0; j < n + r && unused.holds(i); ++j) {
        other[static_cast<std::size_t>(i * (n + r) + j)] *= T{-0.25};
      }
    }
    const std::vector<double> maxima = column_maxima(sketch, d, n + r), others = column_maxima(other, d, n + r);
    if (column_exponents(maxima) == column_exponents(others)) {
      CHECK(upper_of(qr_of_sketch(other, d, n, r, 0.5, unused)) == upper_of(factor));
    }
  };
  check(float{}, kFloatEpsilon);
  check(double{}, kDoubleEpsilon);
}

TEST_CASE("Check rows are as many as asked for, spread evenly, in range, and each is told by holds") {
  for (const auto& [d, count] : {std::pair<int, int>{96, 0}, {96, 1}, {96, 95}, {100, 64}, {320, 64}, {2, 1}}) {
    CAPTURE(d, count);
    const CheckRows rows = make_check_rows(d, count);
    std::int64_t found = 0, last = -1, widest = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      if (!rows.holds(i)) continue;
      if (last >= 0) widest = std::max(widest, i - last);
      last = i;
      ++found;
    }
    CHECK(found == count);
    CHECK(widest <= (count == 0 ? 0 : d / count));
    CHECK(!rows.holds(d));
    CHECK(!rows.holds(-1));
  }
}

TEST_CASE("The residual by the sketch is that of a loop, for FP32 and FP64 sketches") {
  const std::int64_t d = 37, n = 6, r = GENERATE(1, 3);
  const double scale = 1 / std::sqrt(3.0);
  const DenseMatrix m = random_matrix(d, n + r, kSeed + 6);
  const DenseMatrix x = random_matrix(n, r, kSeed + 7);
  const auto check = [&](auto element) {
    using T = decltype(element);
    const std::vector<T> sketch = sketch_of<T>(m);
    const std::vector<double> residual = residual_of_sketch(sketch, d, n, r, scale, row_major(x));
    REQUIRE(residual.size() == static_cast<std::size_t>(d * r));
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t k = 0; k < r; ++k) {
        const auto entry = [&](std::int64_t j) {
          return static_cast<long double>(sketch[static_cast<std::size_t>(i * (n + r) + j)]);
        };
        long double sum = entry(n + k), size = std::fabs(sum);
        for (std::int64_t j = 0; j < n; ++j) {
          sum -= entry(j) * static_cast<long double>(x(j, k));
          size += std::fabs(entry(j) * static_cast<long double>(x(j, k)));
        }
        const double error = residual[static_cast<std::size_t>(i * r + k)] - static_cast<double>(scale * sum);
        CHECK(std::fabs(error) <= (n + 2) * kDoubleEpsilon * scale * static_cast<double>(size));
      }
    }
  };
  check(float{});
  check(double{});
}
