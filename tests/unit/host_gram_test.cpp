// The host's Gram matrix against a plain loop, bit for bit on integer data, and what its header promises beyond that.
#include "src/host_gram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/stored_problem.h"

namespace {

using namespace tallsketch;

/// Reals whose off-diagonal sums cancel across segments: rows come again with -b, so that [A^T b] is rounding errors.
StoredProblem make_cancelling_problem(std::int64_t half, std::int64_t n, std::int64_t r) {
  return make_stored_problem(ElementType::kFloat64, 2 * half, n, r, 0, [&](std::int64_t row, std::int64_t col) {
    const RandomWords words =
        random_words(11, row % half, DrawPurpose::kMatrixEntries, static_cast<std::uint32_t>(col));
    const double sign = row < half || col < n ? 1.0 : -1.0;
    return (static_cast<double>(words.word[0]) * 0x1p-31 - 1.0) * sign;
  });
}

template <class Real>
struct Sums {
  std::vector<Real> gram;       // (n + r, n + r) column-major
  std::vector<Real> magnitude;  // sums of the products' magnitudes, which an error bound needs
};

/// What the sum must give, by the plain loop.
template <class Real>
Sums<Real> reference(const StoredProblem& p) {
  const std::int64_t cols = p.n + p.r;
  const auto size = static_cast<std::size_t>(cols * cols);
  Sums<Real> sums{std::vector<Real>(size), std::vector<Real>(size)};
  std::vector<Real> row(static_cast<std::size_t>(cols));
  for (std::int64_t k = 0; k < p.m; ++k) {
    for (std::int64_t j = 0; j < cols; ++j) row[static_cast<std::size_t>(j)] = static_cast<Real>(p.at(k, j));
    for (std::size_t j = 0; j < row.size(); ++j) {
      for (std::size_t i = 0; i <= j; ++i) {
        sums.gram[j * row.size() + i] += row[i] * row[j];
        sums.magnitude[j * row.size() + i] += std::abs(row[i] * row[j]);
      }
    }
  }
  return sums;
}

std::vector<double> gram_of(const StoredProblem& p, std::int64_t chunk_rows = kAllRows, int threads = 2) {
  HostGram gram(p.n, p.r, threads);
  for (std::int64_t k = 0; k < p.m; k += std::min(chunk_rows, p.m)) {
    const std::int64_t rows = std::min(chunk_rows, p.m - k);
    gram.add(p.view_a(k, rows), p.view_b(k, rows));
  }
  return gram.upper();
}

}  // namespace

TEST_CASE("the Gram matrix is the plain loop's, bit for bit, for every n, r and element type") {
  int run = 0;
  for (const std::int64_t n : {1, 2, 7, 8, 9, 12, 16, 37, 64, 100, 255, 256, 257, 520}) {
    for (const std::int64_t r : {0, 1, 2, 3, 5, 17}) {
      if (n > 250 && r > 1) continue;  // the plain loop is slow
      for (const ElementType type : kElementTypes) {
        const StoredProblem p = make_exact_stored_problem(type, 300, n, r, run % 2);
        INFO("n " << n << " r " << r << " type " << static_cast<int>(type));
        CHECK(gram_of(p, kAllRows, 1 + run++ % 3) == reference<double>(p).gram);
      }
    }
  }
}

TEST_CASE("any number of rows gives the plain loop's sums, in chunks of any size") {
  for (const std::int64_t n : {5, 16}) {
    for (const std::int64_t m : {1, 2, 255, 256, 257, 1000, 40000}) {
      for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
        const StoredProblem p = make_exact_stored_problem(type, m, n, 2);
        const std::vector<double> expected = reference<double>(p).gram;
        for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, std::int64_t{999}, kAllRows}) {
          if (chunk == 1 && m > 1000) continue;
          INFO("n " << n << " m " << m << " chunk " << chunk << " type " << static_cast<int>(type));
          CHECK(gram_of(p, chunk) == expected);
        }
      }
    }
  }
}

TEST_CASE("no rows give zeros, and an empty chunk between others changes nothing") {
  const StoredProblem p = make_exact_stored_problem(ElementType::kFloat32, 600, 33, 2);
  HostGram gram(p.n, p.r, 2);
  gram.add(p.view_a(0, 0), p.view_b(0, 0));
  CHECK(gram.upper() == std::vector<double>(35 * 35, 0.0));
  gram.add(p.view_a(0, 599), p.view_b(0, 599));
  gram.add(p.view_a(599, 0), p.view_b(599, 0));
  gram.add(p.view_a(599, 1), p.view_b(599, 1));
  CHECK(gram.upper() == reference<double>(p).gram);
  CHECK(gram.upper() == reference<double>(p).gram);  // reading does not disturb
}

TEST_CASE("a pitch beyond the columns is skipped, in both matrices") {
  for (const std::int64_t n : {1, 8, 13, 65}) {
    for (const std::int64_t more : {1, 3, 64}) {
      for (const ElementType type : kElementTypes) {
        const StoredProblem p = make_exact_stored_problem(type, 530, n, 3, more);
        INFO("n " << n << " pitch " << n + more << " type " << static_cast<int>(type));
        CHECK(gram_of(p) == reference<double>(p).gram);
      }
    }
  }
}

TEST_CASE("all finite numbers of 16 bits are widened exactly, subnormal ones too") {
  constexpr std::int64_t kCols = 12;  // b is 1: the last column of the sum is the row
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16}) {
    StoredProblem p = make_stored_problem(type, 1, kCols, 1, 0, [](std::int64_t, std::int64_t) { return 1.0; });
    for (std::int64_t first = 0; first < 65536; first += kCols) {
      std::vector<double> expected;
      for (std::int64_t j = 0; j < kCols; ++j) {
        const auto bits = static_cast<std::uint16_t>(first + j);
        std::memcpy(p.a.data() + 2 * j, &bits, sizeof bits);
        if (!std::isfinite(p.at(0, j))) store_element(type, 0.0, p.a.data() + 2 * j);
        expected.push_back(p.at(0, j));
      }
      const std::vector<double> gram = gram_of(p);
      if (!std::equal(expected.begin(), expected.end(), gram.end() - kCols - 1)) {
        FAIL_CHECK("type " << static_cast<int>(type) << " bits from " << first);
      }
    }
  }
}

TEST_CASE("one to five threads give the same bits on real numbers, at any chunking") {
  std::vector<StoredProblem> problems{make_cancelling_problem(2048, 20, 3),
                                      make_real_stored_problem(ElementType::kFloat32, 700, 300, 1)};
  for (const ElementType type : kElementTypes) problems.push_back(make_real_stored_problem(type, 1501, 27, 2));
  for (const StoredProblem& p : problems) {
    for (const std::int64_t chunk : {std::int64_t{1000}, kAllRows}) {
      const std::vector<double> one = gram_of(p, chunk, 1);
      for (int threads = 2; threads <= 5; ++threads) {
        INFO("n " << p.n << " type " << static_cast<int>(p.type) << " threads " << threads);
        CHECK(gram_of(p, chunk, threads) == one);
      }
    }
  }
}

TEST_CASE("the error is within the bound of the header on columns that differ by 1e12") {
  for (const std::int64_t n : {10, 65}) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
      const StoredProblem p = make_real_stored_problem(type, 6000, n, 2, 12);
      const Sums<long double> exact = reference<long double>(p);
      const std::vector<double> sums = gram_of(p);
      INFO("n " << n << " type " << static_cast<int>(type));
      for (std::size_t i = 0; i < sums.size(); ++i) {
        CHECK(std::abs(sums[i] - exact.gram[i]) <= 260 * 0x1p-53L * exact.magnitude[i]);
      }
    }
  }
}

TEST_CASE("the error does not grow with the number of rows") {
  // One column of equal entries that are no binary fractions: a plain sum is off by about m u / 4.
  constexpr std::int64_t kRows = 4000000;
  StoredProblem p{kRows, 1, 1, 1, 1, ElementType::kFloat64, std::vector<std::byte>(8 * kRows), {}};
  for (std::int64_t i = 0; i < kRows; ++i) store_element(p.type, 0.1, p.a.data() + 8 * i);
  p.b.assign(kRows, 0.3);
  const long double x = 0.1, y = 0.3;
  for (const std::int64_t chunk : {std::int64_t{256}, kAllRows}) {  // 256: all in one segment
    const std::vector<double> gram = gram_of(p, chunk);
    CHECK(std::abs(gram[0] / (kRows * x * x) - 1) <= 260 * 0x1p-53L);
    CHECK(gram[1] == 0);  // below the diagonal
    CHECK(std::abs(gram[2] / (kRows * x * y) - 1) <= 260 * 0x1p-53L);
    CHECK(std::abs(gram[3] / (kRows * y * y) - 1) <= 260 * 0x1p-53L);
  }
}

TEST_CASE("a NaN in A reaches its row and column of the Gram matrix and nothing else") {
  StoredProblem p = make_exact_stored_problem(ElementType::kFloat32, 100, 20, 2);
  store_element(p.type, std::nan(""), p.a.data() + (50 * p.pitch_a + 7) * 4);
  const std::vector<double> gram = gram_of(p);
  for (std::size_t j = 0; j < 22; ++j) {
    for (std::size_t i = 0; i <= j; ++i) CHECK(std::isnan(gram[j * 22 + i]) == (i == 7 || j == 7));
  }
}

TEST_CASE("the memory is a few triangles and tiles, and too much of it is refused by name") {
  CHECK(HostGram::bytes(1024, 1, 2) <= (std::int64_t{64} << 20) + (2 << 20));
  CHECK(HostGram::bytes(4096, 1, 64) <= 8 * 4104 * 4112 + (64 << 20));
  CHECK(HostGram::bytes(16, 1, 1) <= std::int64_t{1} << 20);
  CHECK(error_kind_of([] { const HostGram gram(std::int64_t{1} << 26, 0, 1); }) == ErrorKind::kMemory);  // 32 PiB
}
