#include "src/task_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <cblas.h>
#include <fmt/format.h>
#include <lapacke.h>

#include "src/error.h"
#include "src/host_threads.h"
#include "src/row_pass.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kChunkRows = 4096;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

TaskRows::TaskRows(RowSource& source)
    : n_(source.shape().n),
      shape_{source.shape().m, 2 * n_, 1, ElementType::kFloat32},
      info_(source.info()),
      a_and_q_(at(shape_.m * shape_.n)),
      b_(at(shape_.m)),
      triangle_(at((n_ + 1) * (n_ + 1))) {
  require(source.shape().r == 1 && source.shape().a_type == ElementType::kFloat32, ErrorKind::kInternal,
          "a study's problem is FP32 with one right-hand side");
  require(shape_.m > n_, ErrorKind::kUsage,
          fmt::format("--rows {} --cols {}: a study wants more rows than columns", shape_.m, n_));
  basis_.set_shape(shape_.m, n_);
  read_a_and_b(source);
  find_triangle();
  find_basis();
}

void TaskRows::read_a_and_b(RowSource& source) {
  std::vector<float> chunk(at(kChunkRows * n_));
  for_each_chunk({0, shape_.m}, kChunkRows, [&](RowRange rows) {
    source.read(rows, chunk.data(), b_.data() + rows.begin);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      std::copy_n(chunk.data() + i * n_, n_, a_and_q_.data() + (rows.begin + i) * shape_.n);
    }
  });
}

/// QR of the triangle so far on top of the next rows: backward stable whatever the condition, in the memory of a chunk.
void TaskRows::find_triangle() {
  const std::int64_t width = n_ + 1;
  const std::int64_t chunk = std::max(kChunkRows, width);
  std::vector<double> stack(at((width + chunk) * width));  // column-major
  std::vector<double> tau(at(width));
  for_each_chunk({0, shape_.m}, chunk, [&](RowRange rows) {
    const std::int64_t height = width + rows.size();
    for (std::int64_t j = 0; j < width; ++j) {
      double* const column = stack.data() + j * height;
      for (std::int64_t i = 0; i < width; ++i) column[i] = triangle_[at(i * width + j)];
      for (std::int64_t i = 0; i < rows.size(); ++i) {
        const std::int64_t row = rows.begin + i;
        column[width + i] = j < n_ ? double{a_and_q_[at(row * shape_.n + j)]} : b_[at(row)];
      }
    }
    const lapack_int info =
        LAPACKE_dgeqrf(LAPACK_COL_MAJOR, checked_int(height, "rows of a chunk"), checked_int(width, "--cols"),
                       stack.data(), checked_int(height, "rows of a chunk"), tau.data());
    require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate its QR workspace");
    require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_dgeqrf returned {}", info));
    for (std::int64_t j = 0; j < width; ++j) {
      for (std::int64_t i = 0; i < width; ++i) triangle_[at(i * width + j)] = i <= j ? stack[at(j * height + i)] : 0;
    }
  });
}

/// Q = A R^-1. In FP64: with cond(A) up to 1e6, orthonormal to 1e-10 before it is rounded to FP32.
void TaskRows::find_basis() {
  const std::int64_t width = n_ + 1;
  double largest = 0, least = std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < n_; ++j) {
    largest = std::max(largest, std::fabs(triangle_[at(j * width + j)]));
    least = std::min(least, std::fabs(triangle_[at(j * width + j)]));
  }
  constexpr double kDependent = 1e-9;
  require(least > kDependent * largest, ErrorKind::kUsage,
          fmt::format("the columns of A depend on each other (diagonal of R from {:.3g} to {:.3g}); a study wants them "
                      "independent",
                      least, largest));
  const int n = checked_int(n_, "--cols"), leading = checked_int(width, "--cols");
  for_each_chunk({0, shape_.m}, kChunkRows, [&](RowRange rows) {
    std::vector<double> q(at(rows.size() * n_));
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      std::copy_n(a_and_q_.data() + (rows.begin + i) * shape_.n, n_, q.data() + i * n_);
    }
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, checked_int(rows.size(), "rows"), n,
                1.0, triangle_.data(), leading, q.data(), n);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      std::transform(q.data() + i * n_, q.data() + (i + 1) * n_, a_and_q_.data() + (rows.begin + i) * shape_.n + n_,
                     [](double value) { return static_cast<float>(value); });
    }
  });
}

void TaskRows::read(RowRange rows, void* a, double* b) {
#pragma omp parallel for schedule(static) num_threads(team_size())
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    std::copy_n(a_and_q_.data() + i * shape_.n, shape_.n, static_cast<float*>(a) + (i - rows.begin) * shape_.n);
  }
  std::copy(b_.begin() + rows.begin, b_.begin() + rows.end, b);
}

void TaskRows::Basis::read(RowRange rows, void* a, double* b) {
  const std::int64_t n = shape_.n;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    std::copy_n(rows_.a_and_q_.data() + i * 2 * n + n, n, static_cast<float*>(a) + (i - rows.begin) * n);
  }
  std::fill_n(b, rows.size(), 0.0);
}

}  // namespace tallsketch
