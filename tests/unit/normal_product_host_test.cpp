// The host refinement pass against a plain loop, bit for bit on integer data, and what its header promises beyond that.
#include "kernels/normal_product_host.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/guarded_workspace.h"
#include "tests/support/stored_problem.h"

namespace {

using namespace tallsketch;

/// [A | b] and x.
struct Problem : StoredProblem {
  std::vector<double> x;  // (n, r)
};

/// A stored problem with an x of the entries at rows [0, n) of the r columns behind b.
template <class Entry>
Problem with_x(StoredProblem stored, Entry entry) {
  Problem p{std::move(stored), {}};
  for (std::int64_t j = 0; j < p.n; ++j) {
    for (std::int64_t k = 0; k < p.r; ++k) p.x.push_back(entry(j, p.n + p.r + k));
  }
  return p;
}

/// Residuals, gradients and squares are integers below 2^53, in any order.
Problem make_exact_problem(ElementType type, std::int64_t m, std::int64_t n, std::int64_t r,
                           std::int64_t more_pitch = 0) {
  return with_x(make_exact_stored_problem(type, m, n, r, more_pitch), exact_real_entry);
}

Problem make_real_problem(ElementType type, std::int64_t m, std::int64_t n, std::int64_t r, int decades = 0) {
  return with_x(make_real_stored_problem(type, m, n, r, decades), real_entry);
}

/// Reals whose gradient is lost in rounding errors, so that the order of summation shows although runs are added with
/// compensation: rows come again with -b, b of every 256 rows has a scale of its own within 48 decades, and x = 0.
Problem make_cancelling_problem(std::int64_t half, std::int64_t n, std::int64_t r) {
  const auto draw = [&](std::int64_t row, std::int64_t col) {
    return random_words(11, row % half, DrawPurpose::kMatrixEntries, static_cast<std::uint32_t>(col));
  };
  const auto entry = [&](std::int64_t row, std::int64_t col) {
    const auto exponent = static_cast<int>(draw(row % half / 256, n + r).word[1] % 160) - 80;
    const double scale = col < n ? 1.0 : std::ldexp(row < half ? 1.0 : -1.0, exponent);
    return (static_cast<double>(draw(row, col).word[0]) * 0x1p-31 - 1.0) * scale;
  };
  return {make_stored_problem(ElementType::kFloat32, 2 * half, n, r, 0, entry),
          std::vector<double>(static_cast<std::size_t>(n * r))};
}

/// Gradient and squares; the sums of the magnitudes of their terms where a bound needs them.
template <class Real>
struct Sums {
  std::vector<Real> gradient;          // (n, r)
  std::vector<Real> squares;           // (r)
  std::vector<Real> gradient_error{};  // (n, r): sum over rows of |a| * (|b| + |A| |x|)
  std::vector<Real> squares_error{};   // (r): sum over rows of (|b| + |A| |x|)^2
};

/// What the pass must give, by the plain loop.
template <class Real>
Sums<Real> reference(const Problem& p) {
  const auto size = static_cast<std::size_t>(p.n * p.r);
  const auto r = static_cast<std::size_t>(p.r);
  Sums<Real> sums{std::vector<Real>(size), std::vector<Real>(r), std::vector<Real>(size), std::vector<Real>(r)};
  std::vector<Real> row(static_cast<std::size_t>(p.n));
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) row[static_cast<std::size_t>(j)] = static_cast<Real>(p.at(i, j));
    for (std::size_t k = 0; k < r; ++k) {
      Real residual = p.b[static_cast<std::size_t>(i * p.pitch_b) + k];
      Real magnitude = std::abs(residual);
      for (std::size_t j = 0; j < row.size(); ++j) {
        const Real product = row[j] * static_cast<Real>(p.x[j * r + k]);
        residual -= product;
        magnitude += std::abs(product);
      }
      sums.squares[k] += residual * residual;
      sums.squares_error[k] += magnitude * magnitude;
      for (std::size_t j = 0; j < row.size(); ++j) {
        sums.gradient[j * r + k] += row[j] * residual;
        sums.gradient_error[j * r + k] += std::abs(row[j]) * magnitude;
      }
    }
  }
  return sums;
}

using Workspace = GuardedWorkspace<host::NormalWorkspace>;

/// The pass in chunks. Checks on the way that nothing behind the workspace and the outputs was written.
Sums<double> host_pass(const Problem& p, std::int64_t chunk_rows = kAllRows, int threads = 2) {
  constexpr double kUntouched = -12345.5;
  Workspace workspace(host::normal_workspace_bytes(p.n, p.r, threads), p.n, p.r, threads);
  host::normal_begin(p.x.data(), workspace.handle);
  for (std::int64_t k = 0; k < p.m; k += std::min(chunk_rows, p.m)) {
    const std::int64_t rows = std::min(chunk_rows, p.m - k);
    host::normal_add(p.view_a(k, rows), p.view_b(k, rows), workspace.handle);
  }
  Sums<double> sums{std::vector<double>(static_cast<std::size_t>(p.n * p.r + 1), kUntouched),
                    std::vector<double>(static_cast<std::size_t>(p.r + 1), kUntouched)};
  host::normal_end(workspace.handle, sums.gradient.data(), sums.squares.data());
  REQUIRE(workspace.guard_is_whole());
  REQUIRE(sums.gradient.back() == kUntouched);
  REQUIRE(sums.squares.back() == kUntouched);
  sums.gradient.pop_back();
  sums.squares.pop_back();
  return sums;
}

/// Equal as numbers: a NaN differs from everything.
bool equal(const Sums<double>& a, const Sums<double>& b) { return a.gradient == b.gradient && a.squares == b.squares; }

}  // namespace

TEST_CASE("the pass is the plain loop's, bit for bit, for every n, r and element type") {
  int run = 0;
  for (const std::int64_t n : {1, 3, 7, 8, 9, 37, 64, 100, 256, 257, 512, 1025}) {
    for (const std::int64_t r : {0, 1, 2, 3, 4, 5, 17}) {
      if (n > 257 && r == 17) continue;  // the plain loop is slow
      for (const ElementType type : kElementTypes) {
        const std::int64_t m = n > 257 ? 77 : 300;  // runs, visits and blocks end early
        const Problem p = make_exact_problem(type, m, n, r);
        INFO("n " << n << " r " << r << " type " << static_cast<int>(type));
        CHECK(equal(host_pass(p, kAllRows, 1 + run++ % 3), reference<double>(p)));
      }
    }
  }
}

TEST_CASE("any number of rows gives the plain loop's sums, in chunks of any size") {
  for (const std::int64_t n : {5, 16}) {
    for (const std::int64_t m : {1, 7, 8, 9, 255, 256, 257, 1000, 20000}) {
      for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
        const Problem p = make_exact_problem(type, m, n, 2);
        const Sums<double> expected = reference<double>(p);
        for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, std::int64_t{999}, kAllRows}) {
          if (chunk == 1 && m > 1000) continue;
          INFO("n " << n << " m " << m << " chunk " << chunk << " type " << static_cast<int>(type));
          CHECK(equal(host_pass(p, chunk), expected));
        }
      }
    }
  }
}

TEST_CASE("a pitch beyond the columns is skipped, in both matrices") {
  for (const std::int64_t n : {1, 8, 13, 64, 65}) {
    for (const std::int64_t more : {1, 3, 64}) {
      for (const ElementType type : kElementTypes) {
        const Problem p = make_exact_problem(type, 530, n, 3, more);
        INFO("n " << n << " pitch " << n + more << " type " << static_cast<int>(type));
        CHECK(equal(host_pass(p), reference<double>(p)));
      }
    }
  }
}

TEST_CASE("every remainder of columns and rows gives the plain loop's sums") {
  for (std::int64_t n = 8; n <= 24; ++n) {
    for (const std::int64_t r : {1, 4, 5}) {
      for (const ElementType type : kElementTypes) {
        const Problem p = make_exact_problem(type, 64 + n % 9, n, r);
        INFO("n " << n << " r " << r << " type " << static_cast<int>(type));
        CHECK(equal(host_pass(p), reference<double>(p)));
      }
    }
  }
}

TEST_CASE("all finite numbers of 16 bits are widened exactly, subnormal ones too") {
  constexpr std::int64_t kRows = 8, kCols = 12;  // one row at a time that is not zero: the gradient is that row
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16}) {
    const auto zero = [](std::int64_t, std::int64_t) { return 0.0; };
    Problem p = with_x(make_stored_problem(type, kRows, kCols, 1, 0, zero), zero);
    std::fill(p.b.begin(), p.b.end(), 1.0);
    for (std::int64_t first = 0; first < 65536; first += kCols) {
      std::vector<double> expected;
      std::byte* row = p.a.data() + first / kCols % kRows * kCols * 2;
      for (std::int64_t j = 0; j < kCols; ++j) {
        const auto bits = static_cast<std::uint16_t>(first + j);
        std::memcpy(row + 2 * j, &bits, sizeof bits);
        if (!std::isfinite(load_element(type, row + 2 * j))) store_element(type, 0.0, row + 2 * j);
        expected.push_back(load_element(type, row + 2 * j));
      }
      if (host_pass(p).gradient != expected) FAIL_CHECK("type " << static_cast<int>(type) << " bits from " << first);
      std::fill_n(row, 2 * kCols, std::byte{0});
    }
  }
}

TEST_CASE("without a b the gradient is -A^T A x") {
  Problem p = make_exact_problem(ElementType::kFloat32, 700, 40, 5);
  std::fill(p.b.begin(), p.b.end(), 0.0);
  Workspace workspace(host::normal_workspace_bytes(p.n, p.r, 2), p.n, p.r, 2);
  host::normal_begin(p.x.data(), workspace.handle);
  for (const std::int64_t begin : {0, 300}) {
    const std::int64_t rows = begin == 0 ? 300 : 400;
    const SlabView none{nullptr, rows, p.r, p.r, ElementType::kFloat64, begin};
    host::normal_add(p.view_a(begin, rows), none, workspace.handle);
  }
  Sums<double> sums{std::vector<double>(200), std::vector<double>(5)};
  host::normal_end(workspace.handle, sums.gradient.data(), sums.squares.data());
  CHECK(equal(sums, reference<double>(p)));
}

TEST_CASE("no rows give zeros, and a workspace may begin again") {
  const Problem p = make_exact_problem(ElementType::kFloat64, 600, 33, 2);
  Workspace workspace(host::normal_workspace_bytes(p.n, p.r, 2), p.n, p.r, 2);
  Sums<double> sums{std::vector<double>(66, 1.0), std::vector<double>(2, 1.0)};
  for (int pass = 0; pass < 2; ++pass) {
    host::normal_begin(p.x.data(), workspace.handle);
    host::normal_add(p.view_a(0, 0), p.view_b(0, 0), workspace.handle);
    host::normal_end(workspace.handle, sums.gradient.data(), sums.squares.data());
    CHECK(equal(sums, {std::vector<double>(66, 0.0), std::vector<double>(2, 0.0)}));

    host::normal_begin(p.x.data(), workspace.handle);
    host::normal_add(p.view_a(0, 600), p.view_b(0, 600), workspace.handle);
    host::normal_end(workspace.handle, sums.gradient.data(), sums.squares.data());
    CHECK(equal(sums, reference<double>(p)));
  }
}

TEST_CASE("one to five threads give the same bits on real numbers, at any chunking") {
  std::vector<Problem> problems{make_cancelling_problem(2048, 20, 3)};
  for (const ElementType type : kElementTypes) {
    for (const std::int64_t n : {3, 64}) {
      for (const std::int64_t r : {1, 6}) problems.push_back(make_real_problem(type, 1501, n, r));
    }
  }
  for (const Problem& p : problems) {
    for (const std::int64_t chunk : {std::int64_t{1000}, kAllRows}) {
      const Sums<double> one = host_pass(p, chunk, 1);
      for (int threads = 2; threads <= 5; ++threads) {
        INFO("n " << p.n << " r " << p.r << " type " << static_cast<int>(p.type) << " threads " << threads);
        CHECK(equal(host_pass(p, chunk, threads), one));
      }
    }
  }
}

TEST_CASE("the error is within the bound of the header on columns that differ by 1e12") {
  for (const std::int64_t n : {10, 129}) {
    Problem p = make_real_problem(ElementType::kFloat64, 6000, n, 2, 12);
    for (std::size_t j = 0; j < p.x.size(); ++j) p.x[j] *= std::pow(10.0, 12.0 * double(j / 2) / double(n));
    const Sums<long double> exact = reference<long double>(p);
    const Sums<double> sums = host_pass(p);
    // Gradient: residual errors times |a|, and 260 u of the terms. Squares: twice the relative residual error.
    const long double residual_bound = (static_cast<long double>(n) / 4 + 8) * 0x1p-53L;
    const long double bound = residual_bound + 260 * 0x1p-53L;
    INFO("n " << n);
    for (std::size_t i = 0; i < sums.gradient.size(); ++i) {
      CHECK(std::abs(sums.gradient[i] - exact.gradient[i]) <= bound * exact.gradient_error[i]);
    }
    for (std::size_t k = 0; k < sums.squares.size(); ++k) {
      CHECK(std::abs(sums.squares[k] - exact.squares[k]) <= (bound + residual_bound) * exact.squares_error[k]);
    }
  }
}

TEST_CASE("the error does not grow with the number of rows") {
  // One column of equal entries that are no binary fractions: a plain sum is off by about m u / 4.
  constexpr std::int64_t kRows = 4000000;
  Problem p{kRows, 1, 1, 1, 1, ElementType::kFloat64, std::vector<std::byte>(8 * kRows), {}, {0.0}};
  for (std::int64_t i = 0; i < kRows; ++i) store_element(p.type, 0.1, p.a.data() + 8 * i);
  p.b.assign(kRows, 0.3);
  const long double term = static_cast<long double>(0.1) * static_cast<long double>(0.3);
  const long double square = static_cast<long double>(0.3) * static_cast<long double>(0.3);
  for (const std::int64_t chunk : {std::int64_t{256}, kAllRows}) {  // 256: all in one segment
    const Sums<double> sums = host_pass(p, chunk);
    CHECK(std::abs(sums.gradient[0] / (kRows * term) - 1) <= 260 * 0x1p-53L);
    CHECK(std::abs(sums.squares[0] / (kRows * square) - 1) <= 260 * 0x1p-53L);
  }
}

TEST_CASE("a NaN in A reaches all that it takes part in and nothing else") {
  Problem p = make_exact_problem(ElementType::kFloat32, 100, 20, 2);
  store_element(p.type, std::nan(""), p.a.data() + (50 * p.pitch_a + 7) * 4);
  const Sums<double> sums = host_pass(p);
  CHECK(std::all_of(sums.squares.begin(), sums.squares.end(), [](double s) { return std::isnan(s); }));
  CHECK(std::all_of(sums.gradient.begin(), sums.gradient.end(), [](double g) { return std::isnan(g); }));
}
