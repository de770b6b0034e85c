// The reduced problem against FP64 LAPACK: x, residual, rank and condition from an FP32 QR of d x (n + r) matrices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <lapacke.h>

#include "src/error.h"
#include "src/reduced_solver.h"
#include "src/sketch_factor.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using Catch::Approx;

namespace {

constexpr std::uint32_t kSeed = 20240229;
constexpr double kUnitRoundoff = 0x1p-24;

/// (d, n + r) row-major, as a backend hands it over.
struct Sketch {
  std::int64_t d, n, r;
  std::vector<float> data;
  std::int64_t cols() const { return n + r; }
  float& at(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * cols() + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return double{data[static_cast<std::size_t>(i * cols() + j)]}; }
};

Sketch random_sketch(std::int64_t d, std::int64_t n, std::int64_t r, std::uint32_t seed = kSeed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Sketch sketch{d, n, r, std::vector<float>(static_cast<std::size_t>(d * (n + r)))};
  for (float& value : sketch.data) value = normal(engine);
  return sketch;
}

/// Exponents that bring each column's largest magnitude to [0.5, 1), written here a second time.
std::vector<int> exponents_of(const Sketch& s) {
  std::vector<int> exponents;
  for (std::int64_t j = 0; j < s.cols(); ++j) {
    double largest = 0;
    for (std::int64_t i = 0; i < s.d; ++i) largest = std::max(largest, std::fabs(s.at(i, j)));
    exponents.push_back(largest > 0 ? -static_cast<int>(std::floor(std::log2(largest))) - 1 : 0);
  }
  return exponents;
}

/// FP64 truth of the column-scaled problem min ||As y - bs||, y = x / 2^e: by SVD (dgelsd).
struct Truth {
  std::vector<double> y;                // (n, r)
  std::vector<double> residual;         // (r), of the unscaled b
  std::vector<double> singular_values;  // of As, descending
  double y_norm(std::int64_t k, std::int64_t r) const {
    double sum = 0;
    for (std::size_t i = static_cast<std::size_t>(k); i < y.size(); i += static_cast<std::size_t>(r))
      sum += y[i] * y[i];
    return std::sqrt(sum);
  }
};

Truth truth_of(const Sketch& s, double scale) {
  const std::vector<int> e = exponents_of(s);
  const auto d = static_cast<int>(s.d), n = static_cast<int>(s.n), r = static_cast<int>(s.r);
  std::vector<double> a, b;
  for (std::int64_t i = 0; i < s.d; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) a.push_back(scale * std::ldexp(s.at(i, j), e[static_cast<std::size_t>(j)]));
    for (std::int64_t k = s.n; k < s.cols(); ++k) b.push_back(scale * s.at(i, k));
  }
  const std::vector<double> a_copy = a, b_copy = b;
  Truth truth;
  truth.singular_values.resize(static_cast<std::size_t>(n));
  int rank = 0;
  REQUIRE(LAPACKE_dgelsd(LAPACK_ROW_MAJOR, d, n, r, a.data(), n, b.data(), r, truth.singular_values.data(), 1e-12,
                         &rank) == 0);
  truth.y.assign(b.begin(), b.begin() + n * r);
  for (int k = 0; k < r; ++k) {
    double sum = 0;
    for (int i = 0; i < d; ++i) {
      double value = -b_copy[static_cast<std::size_t>(i * r + k)];
      for (int j = 0; j < n; ++j) {
        value += a_copy[static_cast<std::size_t>(i * n + j)] * truth.y[static_cast<std::size_t>(j * r + k)];
      }
      sum += value * value;
    }
    truth.residual.push_back(std::sqrt(sum));
  }
  return truth;
}

/// ||scale s (b - A x)||, (r), without harmful overflow.
std::vector<double> sketched_residual(const Sketch& s, double scale, const std::vector<double>& x) {
  const std::vector<double> residual = residual_of_sketch(s.data, s.d, s.n, s.r, scale, x);
  std::vector<double> norms(static_cast<std::size_t>(s.r), 0.0);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    double& norm = norms[i % norms.size()];
    norm = std::hypot(norm, residual[i]);
  }
  return norms;
}

/// x, residuals and condition within the perturbation bound of an FP32 Householder QR: a relative error of
/// eps = 4 sqrt(d) u in the scaled data (Higham, th. 19.4, in practice), through Wedin's theorem for least squares
/// (Higham, th. 20.1): eps kappa (2 + (kappa + 1) rho / (||As|| ||y||)).
void check_against_truth(const Sketch& s, double scale) {
  const Truth truth = truth_of(s, scale);
  const ReducedSolution solution = solve_reduced(qr_of_sketch(s.data, s.d, s.n, s.r, scale), s.d);
  const std::vector<int> e = exponents_of(s);
  const double largest = truth.singular_values.front(), kappa = largest / truth.singular_values.back();
  const double eps = 4 * std::sqrt(double(s.d)) * kUnitRoundoff;
  CAPTURE(s.d, s.n, s.r, kappa);
  REQUIRE(kappa * eps < 0.1);  // else the test asks for what no FP32 QR gives
  REQUIRE(solution.rank == s.n);
  REQUIRE(solution.dependent.empty());
  REQUIRE(solution.x.size() == static_cast<std::size_t>(s.n * s.r));
  const std::vector<double> residuals = sketched_residual(s, scale, solution.x);
  for (std::int64_t k = 0; k < s.r; ++k) {
    double error = 0, b_norm = 0;
    for (std::int64_t j = 0; j < s.n; ++j) {
      const auto at = static_cast<std::size_t>(j * s.r + k);
      error += std::pow(std::ldexp(solution.x[at], -e[static_cast<std::size_t>(j)]) - truth.y[at], 2);
    }
    for (std::int64_t i = 0; i < s.d; ++i) b_norm += std::pow(scale * s.at(i, s.n + k), 2);
    b_norm = std::sqrt(b_norm);
    const double y_norm = truth.y_norm(k, s.r), rho = truth.residual[static_cast<std::size_t>(k)];
    CAPTURE(k, std::sqrt(error) / y_norm);
    CHECK(std::sqrt(error) <= eps * kappa * (2 * y_norm + (kappa + 1) * rho / largest));
    // The residual norm moves by the data error times ||b|| + ||As|| ||y||.
    CHECK(std::fabs(residuals[static_cast<std::size_t>(k)] - rho) <=
          eps * (b_norm + largest * y_norm * std::sqrt(double(s.n))));
  }
  // Estimated from inside the spectrum, until a step changes it by 2 %: never above by more than the rounding, and with
  // singular values as close as those of random matrices some ten per cent below.
  CHECK(solution.condition <= kappa * (1 + 2 * eps * kappa));
  CHECK(solution.condition >= 0.8 * kappa * (1 - 2 * eps * kappa));
}

/// R^T R of a factor against As^T As, column by column relative to the columns' norms.
void check_gram(const Sketch& s, double scale) {
  const TriangularFactor factor = qr_of_sketch(s.data, s.d, s.n, s.r, scale);
  const std::vector<int> e = exponents_of(s);
  REQUIRE(factor.exponent == e);
  const std::vector<double> upper = upper_of(factor);
  REQUIRE(upper.size() == static_cast<std::size_t>(s.cols() * s.cols()));
  const auto gram = [&](std::int64_t p, std::int64_t q) {
    double sum = 0;
    for (std::int64_t i = 0; i < s.d; ++i) {
      sum += std::ldexp(s.at(i, p), e[static_cast<std::size_t>(p)]) *
             std::ldexp(s.at(i, q), e[static_cast<std::size_t>(q)]);
    }
    return scale * scale * sum;
  };
  for (std::int64_t p = 0; p < s.cols(); ++p) {
    for (std::int64_t q = 0; q <= p; ++q) {
      double sum = 0;
      for (std::int64_t i = 0; i <= q; ++i) {
        sum += double{upper[static_cast<std::size_t>(p * s.cols() + i)]} *
               double{upper[static_cast<std::size_t>(q * s.cols() + i)]};
      }
      CHECK(std::fabs(sum - gram(p, q)) <=
            8 * std::sqrt(double(s.d)) * kUnitRoundoff * std::sqrt(gram(p, p) * gram(q, q)));
    }
    for (std::int64_t i = p + 1; i < s.cols(); ++i) {
      CHECK(upper[static_cast<std::size_t>(p * s.cols() + i)] == 0.0F);
    }
  }
}

}  // namespace

TEST_CASE("R has the Gram matrix of the scaled sketch, in every shape down to d = n + 1 and n = 1") {
  for (const auto& [d, n, r] : {std::tuple<int, int, int>{64, 7, 1}, {8, 7, 1}, {6, 5, 3}, {2, 1, 1}, {65, 33, 2}}) {
    CAPTURE(d, n, r);
    check_gram(random_sketch(d, n, r), 0.5);
    check_gram(random_sketch(d, n, r), 1 / std::sqrt(3.0));
  }
}

TEST_CASE("x, residual and condition of random matrices are those of an FP64 SVD") {
  INFO("seed " << kSeed);
  for (const auto& [d, n, r] :
       {std::tuple<int, int, int>{128, 64, 1}, {64, 7, 1}, {257, 33, 3}, {2, 1, 1}, {40, 1, 2}, {300, 150, 1}}) {
    check_against_truth(random_sketch(d, n, r), 0.5);
    check_against_truth(random_sketch(d, n, r, kSeed + 1), 1 / std::sqrt(9.0));
  }
}

TEST_CASE("A square sketch but for one row, d = n + 1, gives x and the residual of that row") {
  // A random (n + 1, n) matrix may have any condition: these are well conditioned by their diagonal.
  for (const int n : {1, 2, 13, 40}) {
    Sketch s = random_sketch(n + 1, n, 1);
    for (int j = 0; j < n; ++j) s.at(j, j) += 20;
    check_against_truth(s, 1);
  }
}

TEST_CASE("Rows and columns of very different size do not spoil x, and no power overflows") {
  INFO("seed " << kSeed);
  Sketch rows = random_sketch(200, 10, 1);
  for (std::int64_t i = 0; i < rows.d; ++i) {
    for (std::int64_t j = 0; j < rows.cols(); ++j) rows.at(i, j) *= std::pow(10.0F, -static_cast<float>(i % 7));
  }
  check_against_truth(rows, 0.5);

  Sketch columns = random_sketch(200, 13, 2);
  for (std::int64_t j = 0; j < columns.n; ++j) {  // 1e-30 ... 1e30
    for (std::int64_t i = 0; i < columns.d; ++i) {
      columns.at(i, j) *= std::pow(10.0F, static_cast<float>(-30 + 5 * j));
    }
  }
  check_against_truth(columns, 0.5);
  for (const float size : {1e-30F, 1e30F}) {
    Sketch scaled = columns;
    for (std::int64_t i = 0; i < scaled.d; ++i) {
      for (std::int64_t k = scaled.n; k < scaled.cols(); ++k) scaled.at(i, k) *= size;
    }
    check_against_truth(scaled, 0.5);
  }
}

TEST_CASE("Power-of-two column scales change x by exactly those powers") {
  const Sketch s = random_sketch(128, 20, 1);
  Sketch scaled = s;
  for (std::int64_t i = 0; i < s.d; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) scaled.at(i, j) = std::ldexp(scaled.at(i, j), static_cast<int>(3 * j - 30));
    scaled.at(i, s.n) = std::ldexp(scaled.at(i, s.n), -40);
  }
  const ReducedSolution a = solve_reduced(qr_of_sketch(s.data, s.d, s.n, 1, 0.5), s.d);
  const ReducedSolution b = solve_reduced(qr_of_sketch(scaled.data, s.d, s.n, 1, 0.5), s.d);
  for (std::int64_t j = 0; j < s.n; ++j) {
    CHECK(b.x[static_cast<std::size_t>(j)] ==
          std::ldexp(a.x[static_cast<std::size_t>(j)], static_cast<int>(-40 - (3 * j - 30))));
  }
  CHECK(b.condition == a.condition);
  CHECK(sketched_residual(scaled, 0.5, b.x)[0] == std::ldexp(sketched_residual(s, 0.5, a.x)[0], -40));
  CHECK(a.spread > 0);
}

TEST_CASE("Conditions up to 1e4 are solved within the bound and estimated within a fifth") {
  INFO("seed " << kSeed);
  for (const double kappa : {1e1, 1e2, 1e3}) {
    // Columns q_0 + g_j / kappa: after scaling still ill-conditioned, by about kappa.
    Sketch s = random_sketch(160, 8, 1);
    for (std::int64_t i = 0; i < s.d; ++i) {
      for (std::int64_t j = 1; j < s.n; ++j) {
        s.at(i, j) = static_cast<float>(s.at(i, std::int64_t{0}) + static_cast<double>(s.at(i, j)) / kappa);
      }
    }
    check_against_truth(s, 0.5);
  }
}

TEST_CASE("Dependent and zero columns are named, later ones blamed, and x is not given") {
  INFO("seed " << kSeed);
  const auto dependent_of = [](const Sketch& s) {
    const ReducedSolution solution = solve_reduced(qr_of_sketch(s.data, s.d, s.n, s.r, 0.5), s.d);
    CHECK(solution.rank == s.n - static_cast<std::int64_t>(solution.dependent.size()));
    if (!solution.dependent.empty()) {
      CHECK(solution.x.empty());
      CHECK(std::isinf(solution.condition));
    }
    return solution.dependent;
  };
  const auto set_column = [](Sketch& s, std::int64_t j, auto value) {
    for (std::int64_t i = 0; i < s.d; ++i) s.at(i, j) = static_cast<float>(value(i));
  };
  using List = std::vector<std::int64_t>;
  for (const auto& [d, n, r] : {std::tuple<int, int, int>{64, 7, 1}, {2048, 20, 2}, {8, 7, 1}}) {
    CAPTURE(d, n, r);
    const Sketch full = random_sketch(d, n, r);
    CHECK(dependent_of(full) == List{});
    Sketch s = full;
    set_column(s, 0, [](auto) { return 0.0; });
    CHECK(dependent_of(s) == List{0});
    set_column(s, 5, [](auto) { return 0.0; });
    CHECK(dependent_of(s) == List{0, 5});
    s = full;
    set_column(s, 3, [&](auto i) { return 4 * full.at(i, std::int64_t{1}); });
    CHECK(dependent_of(s) == List{3});
    s = full;
    set_column(s, 6, [&](auto i) {  // rounded once an entry: dependent to FP32
      double sum = 0;
      for (std::int64_t j = 0; j < 6; ++j) sum += (1 + double(j)) * full.at(i, j);
      return sum;
    });
    CHECK(dependent_of(s) == List{6});
    for (const float size : {1e-30F, 1e30F}) {  // whatever the size of the dependent column
      Sketch t = s;
      set_column(t, 6, [&](auto i) { return double{size} * static_cast<const Sketch&>(s).at(i, std::int64_t{6}); });
      CHECK(dependent_of(t) == List{6});
    }
    s = full;
    for (std::int64_t j = 0; j < n; ++j) set_column(s, j, [](auto) { return 0.0; });
    CHECK(dependent_of(s).size() == static_cast<std::size_t>(n));
  }
  Sketch one = random_sketch(32, 1, 1);
  set_column(one, 0, [](auto) { return 0.0; });
  CHECK(dependent_of(one) == List{0});
  // Nearly dependent, ten times above the cut-off 2 sqrt(d) u: kept.
  Sketch near = random_sketch(64, 3, 1);
  const Sketch copy = near;
  set_column(near, 2, [&](auto i) {
    return copy.at(i, std::int64_t{0}) + 20 * 8 * kUnitRoundoff * copy.at(i, std::int64_t{2});
  });
  CHECK(dependent_of(near) == List{});
}

TEST_CASE(
    "A QR in FP64 keeps columns that differ by 1e-9, finds their coefficients, and names what is dependent to FP64") {
  const std::int64_t d = 96, n = 6;
  const Sketch random = random_sketch(d, n, 1);
  std::vector<double> sketch(random.data.begin(), random.data.end());
  const std::vector<double> coefficients = {1, -2, 0.5, 3, -1, 2};
  for (std::int64_t i = 0; i < d; ++i) {
    double* const row = sketch.data() + i * (n + 1);
    row[4] = row[1] + 1e-9 * row[4];
    row[n] = 0;
    for (std::int64_t j = 0; j < n; ++j) row[n] += coefficients[static_cast<std::size_t>(j)] * row[j];
  }
  const TriangularFactor factor = qr_of_sketch(sketch, d, n, 1, 0.5);
  CHECK(factor.unit_roundoff == 0x1p-53);
  const ReducedSolution solution = solve_reduced(factor, d);
  REQUIRE(solution.rank == n);
  CHECK(solution.condition > 1e8);
  CHECK(solution.condition < 1e10);
  for (std::size_t j = 0; j < coefficients.size(); ++j) {
    CHECK(solution.x[j] == Approx(coefficients[j]).margin(1e-5));  // 2^-53 times the condition, and sqrt(d)
  }
  const std::vector<float> narrow(sketch.begin(), sketch.end());
  CHECK(solve_reduced(qr_of_sketch(narrow, d, n, 1, 0.5), d).dependent == std::vector<std::int64_t>{4});
  for (std::int64_t i = 0; i < d; ++i)
    sketch[static_cast<std::size_t>(i * (n + 1) + 4)] = sketch[static_cast<std::size_t>(i * (n + 1) + 1)];
  CHECK(solve_reduced(qr_of_sketch(sketch, d, n, 1, 0.5), d).dependent == std::vector<std::int64_t>{4});
}

TEST_CASE("Exponents far beyond those of one column leave x and spread finite where they can be") {
  const Sketch s = random_sketch(64, 5, 1);
  TriangularFactor factor = qr_of_sketch(s.data, s.d, s.n, 1, 0.5);
  const ReducedSolution plain = solve_reduced(factor, s.d);
  for (int& exponent : factor.exponent) exponent += 900;  // all columns, of b too: x stays
  const ReducedSolution scaled = solve_reduced(factor, s.d);
  CHECK(scaled.x == plain.x);
  CHECK(scaled.spread == std::ldexp(plain.spread, 900));
}

TEST_CASE("b = 0 gives x = 0 and no residual; b in the range of A gives its coefficients") {
  Sketch s = random_sketch(64, 7, 2);
  for (std::int64_t i = 0; i < s.d; ++i) {
    s.at(i, 7) = 0;
    s.at(i, 8) = 2 * s.at(i, 3);
  }
  const ReducedSolution solution = solve_reduced(qr_of_sketch(s.data, s.d, 7, 2, 0.5), s.d);
  const std::vector<double> residuals = sketched_residual(s, 0.5, solution.x);
  CHECK(residuals[0] == 0);
  CHECK(residuals[1] < 1e-5);
  for (std::size_t j = 0; j < 7; ++j) {
    CHECK(solution.x[2 * j] == 0);
    CHECK(solution.x[2 * j + 1] == Approx(j == 3 ? 2.0 : 0.0).margin(1e-5));
  }
}

TEST_CASE("A size is a 32-bit integer of the library, or refused as needing a 64-bit BLAS (C-19)") {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2147483647}}) {
    CHECK(checked_int(value, "d") == value);
  }
  for (const std::int64_t value :
       {std::int64_t{-1}, std::int64_t{2147483648}, std::int64_t{46341} * 46341, std::int64_t{3204236779},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    CAPTURE(value);
    try {
      static_cast<void>(checked_int(value, "d"));
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.exit_code() == 7);
      CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("64-bit BLAS") &&
                               Catch::Matchers::ContainsSubstring("d is " + std::to_string(value)) &&
                               Catch::Matchers::ContainsSubstring("--oversample"));
    }
  }
}
