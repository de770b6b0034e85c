#include "src/synthetic_source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <omp.h>

#include "kernels/half.h"
#include "kernels/philox.h"
#include "kernels/uniform_rows_host.h"
#include "src/error.h"
#include "src/normals.h"
#include "src/text.h"

namespace tallsketch {

namespace {

constexpr double kCoherentTail = 1e-3;  // paper F, range study
constexpr double kLowRankNoise = 1e-5;  // paper B, Gram task

}  // namespace

SyntheticSource::SyntheticSource(const SyntheticProblem& problem, int threads)
    : problem_(problem), threads_(threads > 0 ? threads : omp_get_max_threads()), kind_(problem.kind.value()) {
  const std::int64_t m = problem.m, n = problem.n;
  require(n > 0 && m >= n, ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: at least as many rows as columns, and one column, are needed", m, n));
  require(m <= (std::int64_t{1} << 48) && n <= (std::int64_t{1} << 24), ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: at most 2^48 rows and 2^24 columns", m, n));
  require(n <= std::numeric_limits<std::int64_t>::max() / 16 / m, ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: more bytes than a file can have", m, n));
  require(kind_ != SyntheticKind::kLowRank || (problem.rank >= 1 && problem.rank <= n), ErrorKind::kUsage,
          fmt::format("--rank {}: kind lowrank needs a rank from 1 to n = {}", problem.rank, n));
  shape_ = {m, n, 1, problem.type};
  info_ = {{},
           fmt::format("synthetic {}", to_word(kind_)),
           "synthetic",
           to_word(problem.type),
           "made as it is read",
           "computed",
           {}};

  x_true_.resize(static_cast<std::size_t>(n));
  normals(problem.seed, 0, DrawPurpose::kVectors, n, x_true_.data());
  for (double& x : x_true_) x /= std::sqrt(static_cast<double>(n));
  if (kind_ == SyntheticKind::kUniform) {  // 12 + 24 bits: products are exact
    for (double& x : x_true_) x = static_cast<float>(x);
  }

  if (kind_ == SyntheticKind::kLowRank) {
    basis_.resize(static_cast<std::size_t>(problem.rank * n));
    for (std::int64_t k = 0; k < problem.rank; ++k) {
      normals(problem.seed, 1 + k, DrawPurpose::kVectors, n, basis_.data() + k * n);
    }
    for (double& v : basis_) v /= std::sqrt(static_cast<double>(problem.rank));
  }
  if (kind_ == SyntheticKind::kIllConditioned) {
    basis_.resize(static_cast<std::size_t>(2 * n));
    for (std::int64_t k = 0; k < 2; ++k) {
      double* u = basis_.data() + k * n;
      normals(problem.seed, 1 + k, DrawPurpose::kVectors, n, u);
      const double norm = std::sqrt(std::inner_product(u, u + n, u, 0.0));
      for (std::int64_t j = 0; j < n; ++j) u[j] /= norm;
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const double fraction = n == 1 ? 0 : static_cast<double>(j) / static_cast<double>(n - 1);
      singular_values_.push_back(std::pow(problem.cond, -fraction));
    }
  }
  if (kind_ ==
      SyntheticKind::kCoherent) {  // rows are permuted by i -> multiplier * i mod m; coprime, near the golden ratio
    row_multiplier_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(0.6180339887 * static_cast<double>(m)));
    while (std::gcd(row_multiplier_, m) != 1) ++row_multiplier_;
  }
}

std::int64_t SyntheticSource::permuted_row(std::int64_t row) const {
  return static_cast<std::int64_t>(static_cast<__int128>(row) * row_multiplier_ % problem_.m);
}

void SyntheticSource::gaussian_row(std::int64_t row, double* out) const {
  normals(problem_.seed, row, DrawPurpose::kMatrixEntries, problem_.n, out);
}

void SyntheticSource::fill_row(std::int64_t row, double* out, double* scratch) const {
  const std::int64_t n = problem_.n;
  switch (kind_) {
    case SyntheticKind::kGaussian: gaussian_row(row, out); return;
    case SyntheticKind::kCoherent:
    case SyntheticKind::kCoordinate: {
      const std::int64_t source = kind_ == SyntheticKind::kCoherent ? permuted_row(row) : row;
      if (kind_ == SyntheticKind::kCoherent && source >= n) {
        gaussian_row(row, out);
        for (std::int64_t j = 0; j < n; ++j) out[j] *= kCoherentTail;
      } else {
        std::fill_n(out, n, 0.0);
        if (source < n) out[source] = 1;
      }
      return;
    }
    case SyntheticKind::kUniform: return;  // read_uniform's
    case SyntheticKind::kLowRank: {
      gaussian_row(row, out);
      for (std::int64_t j = 0; j < n; ++j) out[j] *= kLowRankNoise;
      normals(problem_.seed ^ 0x9e3779b97f4a7c15U, row, DrawPurpose::kMatrixEntries, problem_.rank, scratch);
      for (std::int64_t k = 0; k < problem_.rank; ++k) {
        const double* v = basis_.data() + k * n;
        for (std::int64_t j = 0; j < n; ++j) out[j] += scratch[k] * v[j];
      }
      return;
    }
    case SyntheticKind::kIllConditioned: {
      gaussian_row(row, out);
      for (std::int64_t j = 0; j < n; ++j) out[j] *= singular_values_[static_cast<std::size_t>(j)];
      for (int reflection = 0; reflection < 2; ++reflection) {
        const double* u = basis_.data() + reflection * n;
        const double twice = 2 * std::inner_product(out, out + n, u, 0.0);
        for (std::int64_t j = 0; j < n; ++j) out[j] -= twice * u[j];
      }
      return;
    }
  }
}

std::string SyntheticSource::identity() const {
  const SyntheticProblem& p = problem_;
  return fmt::format("synthetic {} {} x {} {}, cond {}, rank {}, noise {}, seed {}", to_word(kind_), p.m, p.n,
                     to_word(p.type), p.cond, p.rank, p.noise, p.seed);
}

double SyntheticSource::stored_b(double product, double noise) const {
  const double b = product + problem_.noise * noise;
  return stored_b_type(problem_.type) == ElementType::kFloat64 ? b : static_cast<float>(b);
}

/// Elements are numbered through the whole matrix, so that short rows waste none. A few rows at a time stay in the cache
/// until b has been made of them.
void SyntheticSource::read_uniform(RowRange rows, void* a, double* b) const {
  constexpr std::int64_t kElements = 16384;  // at a time: 64 KiB of float32
  const std::int64_t n = problem_.n, group = std::max<std::int64_t>(1, kElements / n);
  const bool narrow = problem_.type == ElementType::kFloat16, wide = problem_.type == ElementType::kFloat64;
#pragma omp parallel num_threads(threads_)
  {
    std::vector<float> made(static_cast<std::size_t>(narrow || wide ? std::min(group, rows.size()) * n : 0));
    std::vector<double> noise(static_cast<std::size_t>(group));
#pragma omp for schedule(static)
    for (std::int64_t begin = 0; begin < rows.size(); begin += group) {
      const std::int64_t count = std::min(group, rows.size() - begin), elements = count * n;
      float* const values = narrow || wide ? made.data() : static_cast<float*>(a) + begin * n;
      host::uniform_elements(problem_.seed, (rows.begin + begin) * n, elements, values);
      host::uniform_row_products(values, count, n, x_true_.data(), b + begin);
      host::nearly_normal_numbers(problem_.seed, rows.begin + begin, count, noise.data());
      for (std::int64_t i = 0; i < count; ++i) {
        b[begin + i] = stored_b(b[begin + i], noise[static_cast<std::size_t>(i)]);
      }
      if (narrow) host::uniform_halves(values, elements, static_cast<std::uint16_t*>(a) + begin * n);
      if (wide) std::copy_n(values, elements, static_cast<double*>(a) + begin * n);
    }
  }
}

void SyntheticSource::read(RowRange rows, void* a, double* b) {
  if (kind_ == SyntheticKind::kUniform) return read_uniform(rows, a, b);
  const std::int64_t n = problem_.n;
#pragma omp parallel num_threads(threads_)
  {
    std::vector<double> row(static_cast<std::size_t>(n)),
        scratch(static_cast<std::size_t>(kind_ == SyntheticKind::kLowRank ? problem_.rank : 0));
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      fill_row(rows.begin + i, row.data(), scratch.data());
      double product = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        double stored = row[static_cast<std::size_t>(j)];
        if (problem_.type == ElementType::kFloat64) {
          static_cast<double*>(a)[i * n + j] = stored;
        } else if (problem_.type == ElementType::kFloat32) {
          const auto value = static_cast<float>(stored);
          static_cast<float*>(a)[i * n + j] = value;
          stored = value;
        } else {
          const std::uint16_t value = double_to_half(stored);
          static_cast<std::uint16_t*>(a)[i * n + j] = value;
          stored = half_to_float(value);
        }
        product += stored * x_true_[static_cast<std::size_t>(j)];
      }
      double noise = 0;
      normals(problem_.seed, rows.begin + i, DrawPurpose::kNoise, 1, &noise);
      b[i] = stored_b(product, noise);
    }
  }
}

}  // namespace tallsketch
