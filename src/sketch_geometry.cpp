#include "src/sketch_geometry.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <fmt/format.h>
#include <lapacke.h>

#include "kernels/block_perm.h"
#include "src/error.h"
#include "src/normals.h"
#include "src/row_pass.h"
#include "src/row_source.h"

namespace tallsketch {

namespace {

void check_lapack(lapack_int info, const char* what) {
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory,
          fmt::format("LAPACK could not allocate its workspace of {}", what));
  require(info == 0, ErrorKind::kInternal, fmt::format("{} returned {}", what, info));
}

/// Extreme singular values of a (d, n) row-major matrix, d >= n, which is overwritten. LAPACK sees the transpose.
SketchGeometry extremes(std::int64_t d, std::int64_t n, std::vector<double>& matrix) {
  const lapack_int rows = checked_int(n, "n"), cols = checked_int(d, "d");
  std::vector<double> values(static_cast<std::size_t>(n));
  check_lapack(
      LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', rows, cols, matrix.data(), rows, values.data(), nullptr, 1, nullptr, 1),
      "LAPACKE_dgesdd");
  return {values.back(), values.front()};
}

/// Largest eigenvalue of a symmetric (n, n) matrix, one triangle of which is filled: row-major upper is LAPACK's lower.
double largest_eigenvalue(std::int64_t n, std::vector<double> matrix) {
  const lapack_int size = checked_int(n, "n");
  std::vector<double> values(static_cast<std::size_t>(n));
  lapack_int found = 0;
  std::vector<lapack_int> support(2);
  check_lapack(LAPACKE_dsyevr(LAPACK_COL_MAJOR, 'N', 'I', 'L', size, matrix.data(), size, 0, 0, size, size, 0, &found,
                              values.data(), nullptr, 1, support.data()),
               "LAPACKE_dsyevr");
  return values.front();
}

/// gram += row^T row, upper triangle.
void add_outer_product(const float* row, std::int64_t n, double* gram) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = row[i];
    if (value == 0) continue;
    for (std::int64_t j = i; j < n; ++j) gram[i * n + j] += value * row[j];
  }
}

}  // namespace

double SketchGeometry::distortion() const {
  return std::max(std::fabs(largest * largest - 1), std::fabs(1 - smallest * smallest));
}

double SketchGeometry::length_distortion() const { return std::max(std::fabs(largest - 1), std::fabs(1 - smallest)); }

SketchGeometry measure_geometry(const std::vector<double>& sketch, std::int64_t d, std::int64_t n, std::int64_t cols,
                                double scale) {
  std::vector<double> matrix(static_cast<std::size_t>(d * n));
  for (std::int64_t i = 0; i < d; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const double value = sketch[static_cast<std::size_t>(i * cols + j)];
      require(std::isfinite(value), ErrorKind::kNonFinite,
              fmt::format("the sketch of an orthonormal basis is not finite at ({}, {}); use --scaling auto", i, j));
      matrix[static_cast<std::size_t>(i * n + j)] = scale * value;
    }
  }
  return extremes(d, n, matrix);
}

SketchGeometry gaussian_geometry(std::int64_t d, std::int64_t n, std::uint64_t seed) {
  std::vector<double> matrix(static_cast<std::size_t>(d * n));
  for (std::int64_t i = 0; i < d; ++i) normals(seed, i, DrawPurpose::kMatrixEntries, n, matrix.data() + i * n);
  for (double& value : matrix) value /= std::sqrt(static_cast<double>(d));
  return extremes(d, n, matrix);
}

BlockCoherence::BlockCoherence(RowSource& basis, const SketchSpec& spec)
    : n_(basis.shape().n), blocks_(block_count(spec)), gram_(static_cast<std::size_t>(blocks_ * n_ * n_), 0.0) {
  assert(spec.family == SketchFamily::kBlockPerm && basis.shape().a_type == ElementType::kFloat32);
  constexpr std::int64_t kChunkRows = 4096;
  std::vector<float> a(static_cast<std::size_t>(kChunkRows * n_));
  std::vector<double> b(static_cast<std::size_t>(kChunkRows * basis.shape().r));
  for_each_chunk({0, basis.shape().m}, kChunkRows, [&](RowRange rows) {
    basis.read(rows, a.data(), b.data());
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      add_outer_product(a.data() + (i - rows.begin) * n_, n_, gram_.data() + input_block_of_row(spec, i) * n_ * n_);
    }
  });
}

double BlockCoherence::of_blocks() const {
  double largest = 0;
  for (std::int64_t h = 0; h < blocks_; ++h) {
    const auto begin = gram_.begin() + h * n_ * n_;
    largest = std::max(largest, largest_eigenvalue(n_, {begin, begin + n_ * n_}));
  }
  return static_cast<double>(blocks_) * largest;
}

double BlockCoherence::of_neighbourhoods(const SketchSpec& spec) const {
  double largest = 0;
  for (std::int64_t g = 0; g < blocks_; ++g) {
    std::vector<double> sum(static_cast<std::size_t>(n_ * n_), 0.0);
    for (std::int32_t l = 0; l < spec.kappa; ++l) {
      const double* block = gram_.data() + input_block(spec, g, l) * n_ * n_;
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += block[k];
    }
    largest = std::max(largest, largest_eigenvalue(n_, std::move(sum)));
  }
  return static_cast<double>(blocks_) / spec.kappa * largest;
}

}  // namespace tallsketch
