#include "src/coherence_sweep.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <lapacke.h>

#include "src/error.h"
#include "src/host_threads.h"
#include "src/normals.h"

namespace tallsketch {

namespace {

/// Replaces the rows of a (rows, n) row-major matrix of full rank by an orthonormal basis of its columns: LAPACK sees
/// the transpose, (n, rows) column-major, and finds Q^T by LQ.
void orthonormalise(std::int64_t rows, std::int64_t n, std::vector<double>& matrix) {
  const lapack_int height = checked_int(n, "--cols"), width = checked_int(rows, "--rows");
  std::vector<double> tau(static_cast<std::size_t>(n));
  lapack_int info = LAPACKE_dgelqf(LAPACK_COL_MAJOR, height, width, matrix.data(), height, tau.data());
  if (info == 0) info = LAPACKE_dorglq(LAPACK_COL_MAJOR, height, width, height, matrix.data(), height, tau.data());
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate its LQ workspace");
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACK's LQ returned {}", info));
}

/// The rows of the head, row k of it at [k]: n of m without repetition, by the first n exchanges of a shuffle.
std::vector<std::int64_t> head_rows(std::int64_t m, std::int64_t n, HeadRows head, std::uint64_t seed) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(m));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  for (std::int64_t k = 0; k < n && head == HeadRows::kRandom; ++k) {
    const RandomWords words = random_words(seed, k, DrawPurpose::kVectors, 0);
    const std::int64_t other = k + bounded(word_pair(words, 0), static_cast<std::uint32_t>(m - k));
    std::swap(rows[static_cast<std::size_t>(k)], rows[static_cast<std::size_t>(other)]);
  }
  rows.resize(static_cast<std::size_t>(n));
  return rows;
}

}  // namespace

CoherenceSweep::CoherenceSweep(std::int64_t m, std::int64_t n, std::uint64_t seed)
    : shape_{m, n, 1, ElementType::kFloat32},
      info_{{"coherence sweep"}, "U", "0", "synthetic", "synthetic", "computed", {}},
      seed_(seed) {
  require(n >= 1 && n <= m / 2, ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: at least twice as many rows as columns, and one column, are needed", m, n));
  require(m <= std::numeric_limits<std::int32_t>::max() / n, ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: below 2^31 entries, because LAPACK's integers have 32 bits", m, n));
  tail_.resize(static_cast<std::size_t>((m - n) * n));
#pragma omp parallel for schedule(static) num_threads(team_size())
  for (std::int64_t i = 0; i < m - n; ++i) normals(seed, i, DrawPurpose::kMatrixEntries, n, tail_.data() + i * n);
  orthonormalise(m - n, n, tail_);
  for (std::int64_t i = 0; i < m - n; ++i) {
    const double* row = tail_.data() + i * n;
    tail_leverage_ = std::max(tail_leverage_, std::inner_product(row, row + n, row, 0.0));
  }
  mix(1, HeadRows::kFirst);
}

void CoherenceSweep::mix(double coherence, HeadRows head) {
  assert(coherence >= 0 && coherence <= 1);
  head_weight_ = std::sqrt(coherence);
  tail_weight_ = std::sqrt(1 - coherence);
  const std::vector<std::int64_t> rows = head_rows(shape_.m, shape_.n, head, seed_);
  place_.assign(static_cast<std::size_t>(shape_.m), -1);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    place_[static_cast<std::size_t>(rows[k])] = static_cast<std::int64_t>(k);
  }
  std::int64_t of_tail = 0;
  for (std::int64_t& place : place_) {
    if (place < 0) place = -1 - of_tail++;
  }
}

double CoherenceSweep::largest_leverage() const {
  return std::max(head_weight_ * head_weight_, tail_weight_ * tail_weight_ * tail_leverage_);
}

void CoherenceSweep::read(RowRange rows, void* a, double* b) {
  const std::int64_t n = shape_.n;
#pragma omp parallel for schedule(static) num_threads(team_size())
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    float* out = static_cast<float*>(a) + (i - rows.begin) * n;
    const std::int64_t place = place_[static_cast<std::size_t>(i)];
    if (place >= 0) {
      std::fill_n(out, n, 0.0F);
      out[place] = static_cast<float>(head_weight_);
    } else {
      const double* row = tail_.data() + (-1 - place) * n;
      for (std::int64_t j = 0; j < n; ++j) out[j] = static_cast<float>(tail_weight_ * row[j]);
    }
  }
  std::fill_n(b, rows.size(), 0.0);
}

}  // namespace tallsketch
