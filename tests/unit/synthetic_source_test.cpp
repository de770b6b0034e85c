// Synthetic problems: equal in any chunking and by any threads, b = A x_true + noise as stored, and each kind what its formula says.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <lapacke.h>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "kernels/uniform_rows_host.h"
#include "src/error.h"
#include "src/synthetic_source.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;

namespace {

constexpr std::uint64_t kSeed = 20240229;

struct Rows {
  std::vector<double> a;  // (rows, n), as stored
  std::vector<double> b;
};

SyntheticProblem problem(SyntheticKind kind, std::int64_t m, std::int64_t n, ElementType type = ElementType::kFloat64) {
  SyntheticProblem p;
  p.kind = kind;
  p.m = m;
  p.n = n;
  p.type = type;
  p.rank = 3;
  p.seed = kSeed;
  return p;
}

Rows read_rows(SyntheticSource& source, RowRange rows) {
  const ProblemShape& shape = source.shape();
  std::vector<char> raw(static_cast<std::size_t>(rows.size() * shape.n * element_size(shape.a_type)));
  Rows result{{}, std::vector<double>(static_cast<std::size_t>(rows.size()))};
  source.read(rows, raw.data(), result.b.data());
  for (std::int64_t i = 0; i < rows.size() * shape.n; ++i) {
    if (shape.a_type == ElementType::kFloat64) result.a.push_back(reinterpret_cast<const double*>(raw.data())[i]);
    if (shape.a_type == ElementType::kFloat32) {
      result.a.push_back(double{reinterpret_cast<const float*>(raw.data())[i]});
    }
    if (shape.a_type == ElementType::kFloat16) {
      result.a.push_back(double{half_to_float(reinterpret_cast<const std::uint16_t*>(raw.data())[i])});
    }
  }
  return result;
}

std::vector<double> singular_values(std::vector<double> a, std::int64_t m, std::int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n)), work(static_cast<std::size_t>(n));
  const auto rows = static_cast<int>(m), cols = static_cast<int>(n);
  REQUIRE(LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'N', 'N', rows, cols, a.data(), cols, values.data(), nullptr, 1, nullptr, 1,
                         work.data()) == 0);
  return values;
}

int error_code(const SyntheticProblem& p) {
  return error_of([&] { const SyntheticSource source(p); }).first;
}

}  // namespace

TEST_CASE("Rows are the same in any chunking and in a second source, for every kind and type") {
  INFO("seed " << kSeed);
  for (const auto& [word, kind] : words_of(SyntheticKind{})) {
    for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat32, ElementType::kFloat16}) {
      CAPTURE(word, static_cast<int>(type));
      SyntheticSource source(problem(kind, 203, 7, type)), second(problem(kind, 203, 7, type));
      const Rows whole = read_rows(source, {0, 203});
      CHECK(source.x_true() == second.x_true());
      for (const std::int64_t chunk : {1, 7, 200}) {
        Rows parts;
        for (std::int64_t begin = 0; begin < 203; begin += chunk) {
          const Rows part = read_rows(second, {begin, std::min<std::int64_t>(203, begin + chunk)});
          parts.a.insert(parts.a.end(), part.a.begin(), part.a.end());
          parts.b.insert(parts.b.end(), part.b.begin(), part.b.end());
        }
        CHECK(parts.a == whole.a);
        CHECK(parts.b == whole.b);
      }
    }
  }
}

TEST_CASE("Another seed gives other rows and another x") {
  SyntheticProblem other = problem(SyntheticKind::kGaussian, 50, 7);
  other.seed = kSeed + 1;
  SyntheticSource first(problem(SyntheticKind::kGaussian, 50, 7)), second(other);
  const Rows a = read_rows(first, {0, 50}), b = read_rows(second, {0, 50});
  int equal = 0;
  for (std::size_t i = 0; i < a.a.size(); ++i) equal += a.a[i] == b.a[i];
  CHECK(equal == 0);
  CHECK(first.x_true() != second.x_true());
}

TEST_CASE("Narrow types are the float64 entries rounded once") {
  for (const auto& [word, kind] : words_of(SyntheticKind{})) {
    CAPTURE(word);
    SyntheticSource wide(problem(kind, 100, 5)), single(problem(kind, 100, 5, ElementType::kFloat32)),
        half(problem(kind, 100, 5, ElementType::kFloat16));
    const Rows w = read_rows(wide, {0, 100}), s = read_rows(single, {0, 100}), h = read_rows(half, {0, 100});
    for (std::size_t i = 0; i < w.a.size(); ++i) {
      CHECK(s.a[i] == double{static_cast<float>(w.a[i])});
      CHECK(h.a[i] == double{half_to_float(double_to_half(w.a[i]))});
    }
  }
}

TEST_CASE("b is A as stored times x_true, plus noise of the asked deviation") {
  for (const auto& [word, kind] : words_of(SyntheticKind{})) {
    for (const ElementType type : {ElementType::kFloat64, ElementType::kFloat16}) {
      CAPTURE(word, static_cast<int>(type));
      SyntheticProblem p = problem(kind, 3000, 6, type);
      p.noise = 0;
      SyntheticSource quiet(p);
      p.noise = 0.25;
      SyntheticSource noisy(p);
      const Rows exact = read_rows(quiet, {0, 3000}), rough = read_rows(noisy, {0, 3000});
      CHECK(exact.a == rough.a);
      double square = 0, mean = 0;
      bool same = true;
      const double rounding = type == ElementType::kFloat64 ? 1e-15 * 6 : 6e-8;  // b is float32 beside narrow A
      for (std::size_t i = 0; i < exact.b.size(); ++i) {
        double product = 0;
        for (std::size_t j = 0; j < 6; ++j) product += exact.a[6 * i + j] * quiet.x_true()[j];
        same = same && std::fabs(exact.b[i] - product) <= rounding * (1 + std::fabs(product));
        mean += (rough.b[i] - exact.b[i]) / 3000;
        square += std::pow(rough.b[i] - exact.b[i], 2) / 3000;
      }
      CHECK(same);
      CHECK(std::fabs(mean) < 5 * 0.25 / std::sqrt(3000.0));                // 5 standard deviations
      CHECK(std::fabs(square / 0.0625 - 1) < 5 * std::sqrt(2.0 / 3000.0));  // variance of a variance: 2 / m
    }
  }
}

TEST_CASE("Gaussian entries have mean 0, variance 1, kurtosis 3, and columns are uncorrelated") {
  INFO("seed " << kSeed);
  constexpr std::int64_t m = 20000, n = 5;
  SyntheticSource source(problem(SyntheticKind::kGaussian, m, n));
  const Rows rows = read_rows(source, {0, m});
  const double count = static_cast<double>(m * n);
  double first = 0, second = 0, fourth = 0;
  for (const double v : rows.a) {
    first += v / count;
    second += v * v / count;
    fourth += v * v * v * v / count;
  }
  CHECK(std::fabs(first) < 5 / std::sqrt(count));
  CHECK(std::fabs(second - 1) < 5 * std::sqrt(2 / count));
  CHECK(std::fabs(fourth - 3) < 5 * std::sqrt(96 / count));  // Var(g^4) = 105 - 9
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t q = 0; q < p; ++q) {
      double product = 0;
      for (std::size_t i = 0; i < m; ++i) product += rows.a[i * n + p] * rows.a[i * n + q] / double(m);
      CHECK(std::fabs(product) < 5 / std::sqrt(double(m)));
    }
  }
}

TEST_CASE("Coordinate is the identity over zeros; coherent is the identity and a small tail, rows permuted") {
  constexpr std::int64_t m = 60, n = 7;
  SyntheticSource coordinate(problem(SyntheticKind::kCoordinate, m, n)),
      coherent(problem(SyntheticKind::kCoherent, m, n));
  const Rows c = read_rows(coordinate, {0, m}), h = read_rows(coherent, {0, m});
  std::multiset<std::size_t> heads;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) CHECK(c.a[i * n + j] == (i == j ? 1.0 : 0.0));
    std::size_t ones = 0, zeros = 0, where = 0;
    for (std::size_t j = 0; j < n; ++j) {
      if (h.a[i * n + j] == 1) {
        ++ones;
        where = j;
      }
      if (h.a[i * n + j] == 0) ++zeros;
      CHECK((std::fabs(h.a[i * n + j]) < 6e-3 || h.a[i * n + j] == 1));  // 1e-3 g, |g| < 6
    }
    if (ones == 1 && zeros == n - 1) heads.insert(where);
  }
  CHECK(heads == std::multiset<std::size_t>{0, 1, 2, 3, 4, 5, 6});  // each unit vector once
}

TEST_CASE("Every number of rows has its permutation: coherent problems keep full rank") {
  for (std::int64_t m = 3; m < 40; ++m) {
    CAPTURE(m);
    SyntheticSource source(problem(SyntheticKind::kCoherent, m, 3));
    CHECK(singular_values(read_rows(source, {0, m}).a, m, 3).back() > 1 - 1e-12);
  }
}

TEST_CASE("Low rank has its rank of large singular values and 1e-5 noise below") {
  constexpr std::int64_t m = 400, n = 12;
  SyntheticSource source(problem(SyntheticKind::kLowRank, m, n));  // rank 3
  const std::vector<double> s = singular_values(read_rows(source, {0, m}).a, m, n);
  // U V / sqrt(3): singular values near sqrt(m n / 3), between sqrt(m / 3) (sqrt(n) -+ sqrt(3)) or so; noise 1e-5
  // (sqrt(m) +- sqrt(n)).
  CHECK(s[2] > 0.3 * std::sqrt(m / 3.0) * (std::sqrt(12.0) - std::sqrt(3.0)));
  CHECK(s[3] < 1e-5 * (std::sqrt(double(m)) + std::sqrt(double(n))) * 1.5);
  CHECK(s[11] > 1e-5 * (std::sqrt(double(m)) - std::sqrt(double(n))) * 0.5);
}

TEST_CASE("Ill-conditioned problems have the asked condition number, and mixed columns") {
  for (const double cond : {1.0, 1e3, 1e8}) {
    CAPTURE(cond);
    constexpr std::int64_t m = 2000, n = 10;
    SyntheticProblem p = problem(SyntheticKind::kIllConditioned, m, n);
    p.cond = cond;
    SyntheticSource source(p);
    const Rows rows = read_rows(source, {0, m});
    const std::vector<double> s = singular_values(rows.a, m, n);
    // G / sqrt(m) is within 1 +- sqrt(n / m) = 7 % of an isometry; some room.
    CHECK(s.front() / s.back() > 0.8 * cond);
    CHECK(s.front() / s.back() < 1.25 * cond);
    if (cond > 1) {  // the reflections spread the large directions over the columns: no column is tiny
      for (std::size_t j = 0; j < n; ++j) {
        double norm = 0;
        for (std::size_t i = 0; i < m; ++i) norm += rows.a[i * n + j] * rows.a[i * n + j];
        CHECK(std::sqrt(norm) > 1e-3 * s.front());
      }
    }
  }
  SyntheticProblem one = problem(SyntheticKind::kIllConditioned, 10, 1);
  SyntheticSource source(one);
  CHECK(singular_values(read_rows(source, {0, 10}).a, 10, 1)[0] > 0);
}

TEST_CASE("Uniform elements are those that random_words defines, in any piece of the sequence") {
  const auto defined = [](std::int64_t e) {
    const RandomWords words =
        random_words(kSeed, e / 128, DrawPurpose::kMatrixEntries, static_cast<std::uint32_t>(e % 16));
    const std::int64_t q = e % 128 / 16;
    const std::uint32_t half = q % 2 == 0 ? words.word[q / 2] & 0xffffU : words.word[q / 2] >> 16;
    const auto number = static_cast<std::int16_t>(half);
    return std::floor(number / 16.0) / 2048;
  };
  for (const std::int64_t first :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{127}, std::int64_t{128}, (std::int64_t{1} << 39) + 77}) {
    for (const std::int64_t count : {0, 1, 50, 127, 128, 129, 400}) {
      CAPTURE(first, count);
      std::vector<float> out(static_cast<std::size_t>(count) + 1, 7);
      host::uniform_elements(kSeed, first, count, out.data());
      bool same = true;
      for (std::int64_t k = 0; k < count; ++k) {
        same = same && double{out[static_cast<std::size_t>(k)]} == defined(first + k);
      }
      CHECK(same);
      CHECK(out.back() == 7);  // nothing behind them
    }
  }
}

TEST_CASE("Uniform rows are the sequence cut into rows, equal in every type, with nearly normal noise in b") {
  for (const std::int64_t n : {1, 7, 31, 32, 33, 129}) {
    CAPTURE(n);
    SyntheticProblem p = problem(SyntheticKind::kUniform, 300, n);
    p.noise = 0.5;
    SyntheticSource wide(p);
    const Rows rows = read_rows(wide, {0, 300});
    for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
      p.type = type;
      SyntheticSource narrow(p);
      CHECK(read_rows(narrow, {0, 300}).a == rows.a);
    }
    std::vector<float> sequence(static_cast<std::size_t>(300 * n));
    host::uniform_elements(kSeed, 0, 300 * n, sequence.data());
    CHECK(rows.a == std::vector<double>(sequence.begin(), sequence.end()));
    bool close = true;
    for (std::int64_t i = 0; i < 300; ++i) {
      const RandomWords words = random_words(kSeed, i, DrawPurpose::kNoise, 0);
      double b = 0;
      for (const std::uint32_t word : words.word) {
        b += (static_cast<std::int16_t>(word & 0xffffU) + 0.5) + (static_cast<std::int16_t>(word >> 16) + 0.5);
      }
      b *= 0.5 * std::sqrt(1.5) / 65536;
      for (std::int64_t j = 0; j < n; ++j) {
        b += rows.a[static_cast<std::size_t>(i * n + j)] * wide.x_true()[static_cast<std::size_t>(j)];
      }
      close = close && std::fabs(rows.b[static_cast<std::size_t>(i)] - b) < 1e-13;
    }
    CHECK(close);
  }
}

TEST_CASE("Uniform entries fill [-1, 1) with mean 0 and variance 1/3, and columns are uncorrelated") {
  INFO("seed " << kSeed);
  constexpr std::int64_t m = 40000, n = 5;
  SyntheticSource source(problem(SyntheticKind::kUniform, m, n));
  const Rows rows = read_rows(source, {0, m});
  const double count = static_cast<double>(m * n);
  double first = 0, second = 0;
  for (const double v : rows.a) {
    first += v / count;
    second += v * v / count;
  }
  CHECK(*std::min_element(rows.a.begin(), rows.a.end()) == -1);  // 200 000 draws of 4096 values
  CHECK(*std::max_element(rows.a.begin(), rows.a.end()) == 1 - 1.0 / 2048);
  CHECK(std::set<double>(rows.a.begin(), rows.a.end()).size() == 4096);
  CHECK(std::fabs(first + 1.0 / 4096) < 5 / std::sqrt(3 * count));
  CHECK(std::fabs(second - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / count));  // Var(u^2) = 1/5 - 1/9
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t q = 0; q < p; ++q) {
      double product = 0;
      for (std::size_t i = 0; i < m; ++i) product += rows.a[i * n + p] * rows.a[i * n + q] / double(m);
      CHECK(std::fabs(product) < 5.0 / 3 / std::sqrt(double(m)));
    }
  }
}

TEST_CASE("Any number of threads makes the same rows, also beside another thread with threads of its own") {
  for (const SyntheticKind kind : {SyntheticKind::kUniform, SyntheticKind::kGaussian}) {
    CAPTURE(to_word(kind));
    const SyntheticProblem p = problem(kind, 5000, 33, ElementType::kFloat32);
    SyntheticSource one(p, 1), three(p, 3);
    const Rows expected = read_rows(one, {3, 5000});
    Rows read;
    std::thread reader([&] { read = read_rows(three, {3, 5000}); });
    SyntheticSource two(p, 2);
    const Rows beside = read_rows(two, {3, 5000});
    reader.join();
    CHECK(beside.a == expected.a);
    CHECK(beside.b == expected.b);
    CHECK(read.a == expected.a);
    CHECK(read.b == expected.b);
  }
}

TEST_CASE("Sizes that make no problem are refused with the usage code, on both sides of the bounds") {
  CHECK(error_code(problem(SyntheticKind::kGaussian, 1, 1)) == 0);
  CHECK(error_code(problem(SyntheticKind::kGaussian, 7, 7)) == 0);
  CHECK(error_code(problem(SyntheticKind::kGaussian, 6, 7)) == 2);
  CHECK(error_code(problem(SyntheticKind::kGaussian, 7, 0)) == 2);
  CHECK(error_code(problem(SyntheticKind::kGaussian, 0, 0)) == 2);
  CHECK(error_code(problem(SyntheticKind::kGaussian, -1, -2)) == 2);
  CHECK(error_code(problem(SyntheticKind::kGaussian, std::int64_t{1} << 48, 2)) == 0);
  CHECK(error_code(problem(SyntheticKind::kGaussian, (std::int64_t{1} << 48) + 1, 2)) == 2);
  CHECK(error_code(problem(SyntheticKind::kGaussian, std::int64_t{1} << 40, (std::int64_t{1} << 24) + 1)) == 2);
}

TEST_CASE("Rows far beyond 2^32 are made, and differ from those below") {
  for (const SyntheticKind kind :
       {SyntheticKind::kGaussian, SyntheticKind::kCoherent, SyntheticKind::kIllConditioned, SyntheticKind::kUniform}) {
    CAPTURE(to_word(kind));
    SyntheticSource source(problem(kind, std::int64_t{1} << 48, 4));
    const std::int64_t far = std::int64_t{1} << 33;
    const Rows low = read_rows(source, {100, 104}), high = read_rows(source, {far + 100, far + 104});
    CHECK(low.a != high.a);
    CHECK(std::all_of(high.a.begin(), high.a.end(), [](double v) { return std::isfinite(v); }));
  }
}
