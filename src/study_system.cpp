#include "src/study_system.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <cblas.h>
#include <fmt/format.h>

#include "src/error.h"
#include "src/host_threads.h"
#include "src/made_up_problem.h"
#include "src/normals.h"

namespace tallsketch {

namespace {

// Paper F, section V-E.
constexpr double kLargest = 100, kLeast = 1, kNoise = 0.1;
constexpr double kTail = 1e-3, kHeadNoise = 0.5;

/// diag(sigma) V^T / sqrt(m), (n, n) row-major.
std::vector<float> low_coherence_mix(std::int64_t m, std::int64_t n, std::uint64_t seed, double entry_scale) {
  const std::vector<double> v = orthonormal_matrix(n, seed);  // column j at [j n]
  std::vector<float> mix(v.size());
  for (std::int64_t j = 0; j < n; ++j) {
    const double share = n == 1 ? 0 : static_cast<double>(j) / static_cast<double>(n - 1);
    const double sigma = entry_scale * (kLargest + share * (kLeast - kLargest)) / std::sqrt(static_cast<double>(m));
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(j * n + i);
      mix[at] = static_cast<float>(sigma * v[at]);
    }
  }
  return mix;
}

/// (m): k where row k of the identity goes, -1 elsewhere: the first n exchanges of a shuffle.
std::vector<std::int32_t> head_places(std::int64_t m, std::int64_t n, std::uint64_t seed) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(m));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::vector<std::int32_t> place(rows.size(), -1);
  for (std::int64_t k = 0; k < n; ++k) {
    const RandomWords words = random_words(seed, k, DrawPurpose::kShuffle, 0);
    const std::int64_t other = k + bounded(word_pair(words, 0), static_cast<std::uint32_t>(m - k));
    std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(other)]);
    place[static_cast<std::size_t>(rows[static_cast<std::size_t>(k)])] = static_cast<std::int32_t>(k);
  }
  return place;
}

}  // namespace

void check_system_sizes(std::int64_t m, std::int64_t n) {
  require(n >= 1 && m / 2 >= n, ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: at least twice as many rows as columns, and one column, are needed", m, n));
  require(m <= std::numeric_limits<std::int32_t>::max(), ErrorKind::kUsage,
          fmt::format("--rows {}: below 2^31 rows", m));
}

StudySystem::StudySystem(const StudySystemOptions& options)
    : options_(options), shape_{options.m, options.n, 1, ElementType::kFloat32} {
  const std::int64_t m = options.m, n = options.n;
  check_system_sizes(m, n);
  info_ = {{}, fmt::format("study {}", to_word(options.kind)), "study", "float32", "made as it is read", "computed",
           {}};
  if (options.kind == SystemKind::kLowCoherence) {
    mix_ = low_coherence_mix(m, n, options.seed, options.entry_scale);
  } else {
    place_ = head_places(m, n, options.seed);
  }
}

/// Whole groups of rows, whoever asks for which of them: products of one shape have the same bits.
void StudySystem::low_coherence_rows(RowRange rows, float* a) const {
  constexpr std::int64_t kGroup = 64;
  const std::int64_t n = options_.n, first = rows.begin / kGroup, last = (rows.end + kGroup - 1) / kGroup;
  const int order = checked_int(n, "--cols");
#pragma omp parallel num_threads(team_size())
  {
    std::vector<double> normal(static_cast<std::size_t>(n));
    std::vector<float> left(static_cast<std::size_t>(kGroup * n)), product(left.size());
#pragma omp for schedule(static)
    for (std::int64_t group = first; group < last; ++group) {
      for (std::int64_t i = 0; i < kGroup; ++i) {
        normals(options_.seed, group * kGroup + i, DrawPurpose::kMatrixEntries, n, normal.data());
        std::transform(normal.begin(), normal.end(), left.begin() + i * n,
                       [](double value) { return static_cast<float>(value); });
      }
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(kGroup), order, order, 1.0F, left.data(),
                  order, mix_.data(), order, 0.0F, product.data(), order);
      const std::int64_t begin = std::max(rows.begin, group * kGroup);
      const std::int64_t end = std::min(rows.end, (group + 1) * kGroup);
      std::copy_n(product.data() + (begin - group * kGroup) * n, (end - begin) * n, a + (begin - rows.begin) * n);
    }
  }
}

void StudySystem::coherent_row(std::int64_t row, float* a) const {
  const std::int64_t m = options_.m, n = options_.n, head = place_[static_cast<std::size_t>(row)];
  if (head >= 0) {
    std::fill_n(a, n, 0.0F);
    a[head] = 1;
    return;
  }
  const double size = options_.entry_scale * kTail / std::sqrt(static_cast<double>(m - n));
  std::vector<double> normal(static_cast<std::size_t>(n));
  normals(options_.seed, row, DrawPurpose::kMatrixEntries, n, normal.data());
  std::transform(normal.begin(), normal.end(), a, [&](double value) { return static_cast<float>(size * value); });
}

void StudySystem::read(RowRange rows, void* a, double* b) {
  const std::int64_t n = options_.n;
  auto* const out = static_cast<float*>(a);
  const bool coherent = options_.kind == SystemKind::kCoherent;
  if (!coherent) low_coherence_rows(rows, out);
#pragma omp parallel for schedule(static) num_threads(team_size())
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* const values = out + (row - rows.begin) * n;
    if (coherent) coherent_row(row, values);
    const double noise_size = !coherent ? kNoise : place_[static_cast<std::size_t>(row)] >= 0 ? kHeadNoise : 0;
    double fitted = 0, noise = 0;
    for (std::int64_t j = 0; j < n; ++j) fitted += double{values[j]};
    normals(options_.seed, row, DrawPurpose::kNoise, 1, &noise);
    b[row - rows.begin] = static_cast<float>(fitted + noise_size * noise);
  }
}

PowerScaledRows::PowerScaledRows(RowSource& source) : shape_(source.shape()), info_(source.info()) {
  a_.resize(static_cast<std::size_t>(shape_.m * shape_.n));
  b_.resize(static_cast<std::size_t>(shape_.m * shape_.r));
  source.read({0, shape_.m}, a_.data(), b_.data());
}

void PowerScaledRows::read(RowRange rows, void* a, double* b) {
  const auto factor = static_cast<float>(std::ldexp(1.0, exponent_));
  const float* const from = a_.data();
  auto* const out = static_cast<float*>(a);
#pragma omp parallel for schedule(static) num_threads(team_size())
  for (std::int64_t i = 0; i < rows.size() * shape_.n; ++i) out[i] = from[rows.begin * shape_.n + i] * factor;
  const double* const from_b = b_.data();
  std::transform(from_b + rows.begin * shape_.r, from_b + rows.end * shape_.r, b,
                 [&](double value) { return value * factor; });
}

}  // namespace tallsketch
