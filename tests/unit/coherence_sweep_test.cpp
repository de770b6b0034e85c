// The coherence sweep: orthonormal at every mix, its leverages as stated, the same rows in any chunking.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "src/coherence_sweep.h"
#include "src/error.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 123;

std::vector<float> rows_of(CoherenceSweep& sweep, RowRange rows) {
  std::vector<float> a(static_cast<std::size_t>(rows.size() * sweep.shape().n));
  std::vector<double> b(static_cast<std::size_t>(rows.size()), 1.0);
  sweep.read(rows, a.data(), b.data());
  CHECK(b == std::vector<double>(b.size(), 0.0));
  return a;
}

/// Largest |(U^T U - I)_jk|.
double departure_from_orthonormal(const std::vector<float>& u, std::int64_t n) {
  double largest = 0;
  const auto rows = static_cast<std::int64_t>(u.size()) / n;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t k = 0; k < n; ++k) {
      double sum = j == k ? -1 : 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        sum += double{u[static_cast<std::size_t>(i * n + j)]} * u[static_cast<std::size_t>(i * n + k)];
      }
      largest = std::max(largest, std::fabs(sum));
    }
  }
  return largest;
}

std::vector<double> leverages(const std::vector<float>& u, std::int64_t n) {
  std::vector<double> squares(u.size() / static_cast<std::size_t>(n));
  for (std::size_t at = 0; at < u.size(); ++at) squares[at / static_cast<std::size_t>(n)] += double{u[at]} * u[at];
  return squares;
}

}  // namespace

TEST_CASE("the basis is orthonormal at every mix, and n rows have the leverage that was asked for") {
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{2, 1}, {101, 7}, {26, 13}}) {
    CoherenceSweep sweep(m, n, kSeed);
    for (const HeadRows head : {HeadRows::kFirst, HeadRows::kRandom}) {
      for (const double coherence : {0.0, 0.3, 1.0}) {
        sweep.mix(coherence, head);
        const std::vector<float> u = rows_of(sweep, {0, m});
        INFO("m " << m << " n " << n << " coherence " << coherence << " head " << to_word(head) << " seed " << kSeed);
        CHECK(departure_from_orthonormal(u, n) < 4e-7);  // entries are rounded by up to 2^-24 of themselves
        const std::vector<double> squares = leverages(u, n);
        CHECK(sweep.largest_leverage() ==
              Catch::Approx(*std::max_element(squares.begin(), squares.end())).epsilon(1e-6));
        std::int64_t heads = 0;
        for (std::int64_t i = 0; i < m; ++i) {
          const auto begin = u.begin() + i * n;
          const auto nonzeros = n - std::count(begin, begin + n, 0.0F);
          if (coherence == 1 || nonzeros > 1) continue;
          heads += std::fabs(squares[static_cast<std::size_t>(i)] - coherence) < 1e-6 ? 1 : 0;
        }
        if (coherence < 1 && n > 1) CHECK(heads == n);
      }
    }
  }
}

TEST_CASE("coordinate rows are the identity over zeros, or each unit vector once somewhere") {
  constexpr std::int64_t kM = 500, kN = 20;
  CoherenceSweep sweep(kM, kN, kSeed);
  std::vector<std::int64_t> places;
  for (const HeadRows head : {HeadRows::kFirst, HeadRows::kRandom}) {
    sweep.mix(1, head);
    const std::vector<float> u = rows_of(sweep, {0, kM});
    std::set<std::int64_t> columns;
    for (std::int64_t at = 0; at < kM * kN; ++at) {
      const float value = u[static_cast<std::size_t>(at)];
      if (value == 0) continue;
      CHECK(value == 1.0F);
      columns.insert(at % kN);
      places.push_back(at / kN);
      if (head == HeadRows::kFirst) CHECK(at / kN == at % kN);
    }
    CHECK(columns.size() == kN);
  }
  CHECK(places.size() == 2 * kN);
  CHECK(places.back() > kM / 2);  // 20 random rows all in the first half: once in a million seeds
}

TEST_CASE("rows do not depend on the chunks they are read in") {
  CoherenceSweep sweep(300, 11, kSeed);
  sweep.mix(0.4, HeadRows::kRandom);
  const std::vector<float> whole = rows_of(sweep, {0, 300});
  std::vector<float> parts;
  for (const RowRange rows : {RowRange{0, 1}, RowRange{1, 128}, RowRange{128, 300}}) {
    const std::vector<float> part = rows_of(sweep, rows);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  CHECK(whole == parts);
}

TEST_CASE("sizes that make no basis are refused with both sizes") {
  for (const auto& [m, n] :
       {std::pair<std::int64_t, std::int64_t>{10, 6}, {10, 0}, {0, 0}, {std::int64_t{1} << 30, 2}, {1, 1}}) {
    INFO("m " << m << " n " << n);
    CHECK_THROWS_AS(CoherenceSweep(m, n, kSeed), Error);
  }
  CHECK_NOTHROW(CoherenceSweep(10, 5, kSeed));
}
