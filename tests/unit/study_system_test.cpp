// The systems of the least-squares studies: what paper F says of them holds, and they are the same in whatever pieces they
// are read.
#include "src/study_system.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <lapacke.h>

#include "src/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 3001, kCols = 13;

struct Rows {
  std::vector<float> a;
  std::vector<double> b;
};

Rows read(RowSource& source, std::int64_t chunk) {
  const auto [m, n, r, type] = source.shape();
  Rows rows{std::vector<float>(static_cast<std::size_t>(m * n)), std::vector<double>(static_cast<std::size_t>(m))};
  for (std::int64_t begin = 0; begin < m; begin += chunk) {
    source.read({begin, std::min(begin + chunk, m)}, rows.a.data() + begin * n, rows.b.data() + begin);
  }
  return rows;
}

/// Singular values, descending.
std::vector<double> singular_values(const Rows& rows) {
  std::vector<double> a(rows.a.begin(), rows.a.end()), values(kCols);
  REQUIRE(LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'N', kRows, kCols, a.data(), kCols, values.data(), nullptr, kCols, nullptr,
                         kCols) == 0);
  return values;
}

/// b - A 1, row by row.
std::vector<double> noise_of(const Rows& rows) {
  std::vector<double> noise = rows.b;
  for (std::size_t i = 0; i < noise.size(); ++i) {
    for (std::size_t j = 0; j < kCols; ++j) noise[i] -= rows.a[i * kCols + j];
  }
  return noise;
}

double root_mean_square(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

}  // namespace

TEST_CASE("A study's system is the same in one piece and in many, and another for another seed") {
  for (const SystemKind kind : {SystemKind::kLowCoherence, SystemKind::kCoherent}) {
    StudySystem system({kind, kRows, kCols, 123}), other({kind, kRows, kCols, 124});
    const Rows whole = read(system, kRows);
    for (const std::int64_t chunk : {1, 7, 64, 1000}) {
      const Rows pieces = read(system, chunk);
      CHECK(pieces.a == whole.a);
      CHECK(pieces.b == whole.b);
    }
    CHECK(read(other, kRows).a != whole.a);
  }
}

TEST_CASE("The low-coherence system has singular values from 100 to 1 in equal steps and noise of 0.1") {
  StudySystem system({SystemKind::kLowCoherence, kRows, kCols, 123});
  const Rows rows = read(system, kRows);
  const std::vector<double> values = singular_values(rows);
  const double spread = std::sqrt(static_cast<double>(kCols) / kRows);  // of a normal matrix of these sizes
  for (std::size_t k = 0; k < kCols; ++k) {
    INFO("singular value " << k << ": " << values[k]);
    CHECK(std::fabs(values[k] / (100 - 99.0 * static_cast<double>(k) / (kCols - 1)) - 1) < 2 * spread);
  }
  CHECK(root_mean_square(noise_of(rows)) == Catch::Approx(0.1).epsilon(4 / std::sqrt(2.0 * kRows)));
  StudySystem twice({SystemKind::kLowCoherence, kRows, kCols, 123, 2});
  CHECK(singular_values(read(twice, kRows))[0] == Catch::Approx(2 * values[0]).epsilon(1e-6));
}

TEST_CASE("The coherent system is a unit matrix, noisy, among a thousand times smaller rows without noise") {
  StudySystem system({SystemKind::kCoherent, kRows, kCols, 123});
  const Rows rows = read(system, kRows);
  const std::vector<double> noise = noise_of(rows);
  std::vector<int> seen(kCols);
  std::vector<double> head_noise, tail;
  std::int64_t displaced = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kRows); ++i) {
    const float* row = rows.a.data() + i * kCols;
    std::size_t ones = 0, column = 0;
    for (std::size_t j = 0; j < kCols; ++j) {
      if (row[j] == 1) {
        ++ones;
        column = j;
      }
    }
    if (ones == 0) {
      tail.insert(tail.end(), row, row + kCols);
      CHECK(std::fabs(noise[i]) < 1e-8);  // rounding of b
      continue;
    }
    CHECK(ones == 1);
    ++seen[column];
    displaced += i != column ? 1 : 0;
    head_noise.push_back(noise[i]);
  }
  CHECK(seen == std::vector<int>(kCols, 1));
  CHECK(displaced > kCols / 2);
  CHECK(root_mean_square(tail) ==
        Catch::Approx(1e-3 / std::sqrt(kRows - kCols)).epsilon(4 / std::sqrt(2.0 * kRows * kCols)));
  CHECK(root_mean_square(head_noise) == Catch::Approx(0.5).epsilon(4 / std::sqrt(2.0 * kCols)));
  StudySystem twice({SystemKind::kCoherent, kRows, kCols, 123, 2});
  const Rows doubled = read(twice, kRows);
  for (std::size_t i = 0; i < rows.a.size(); ++i) {
    if (rows.a[i] != 0 && rows.a[i] != 1 && doubled.a[i] != 2 * rows.a[i]) FAIL("tail element " << i);
  }
}

TEST_CASE("Rows times a power of two are exact") {
  StudySystem system({SystemKind::kCoherent, kRows, kCols, 123});
  const Rows rows = read(system, kRows);
  PowerScaledRows scaled(system);
  CHECK(read(scaled, 100).a == rows.a);
  for (const int power : {-40, 20}) {
    scaled.set_power(power);
    const Rows other = read(scaled, 100);
    bool equal = true;
    for (std::size_t i = 0; i < rows.a.size(); ++i) equal = equal && other.a[i] == std::ldexp(rows.a[i], power);
    for (std::size_t i = 0; i < rows.b.size(); ++i) equal = equal && other.b[i] == std::ldexp(rows.b[i], power);
    CHECK(equal);
  }
}

TEST_CASE("A system needs a column and twice as many rows") {
  CHECK_NOTHROW(check_system_sizes(2, 1));
  for (const auto& [m, n] : {std::pair{1, 1}, {25, 13}, {10, 0}, {10, -1}}) {
    const StudySystemOptions options{SystemKind::kCoherent, m, n, 1};
    CHECK(error_kind_of([&] { StudySystem system(options); }) == ErrorKind::kUsage);
  }
  CHECK(error_kind_of([] { check_system_sizes(std::int64_t{1} << 31, 1); }) == ErrorKind::kUsage);
  CHECK_NOTHROW(check_system_sizes((std::int64_t{1} << 31) - 1, 1));
}
