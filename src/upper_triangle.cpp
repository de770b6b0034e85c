#include "src/upper_triangle.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include <cblas.h>
#include <lapacke.h>

#include "src/error.h"
#include "src/large_pages.h"

namespace tallsketch {

UpperTriangle::UpperTriangle(std::int64_t n, const double* values, std::int64_t ld)
    : n_(n), values_(zeros_in_large_pages(n * n)) {
  assert(ld >= n);
  checked_int(n, "n");
  for (std::int64_t j = 0; j < n; ++j) std::copy_n(values + j * ld, j + 1, values_.begin() + j * n);
}

double UpperTriangle::column_norm(std::int64_t j) const {
  double squares = 0;
  for (std::int64_t i = 0; i <= j; ++i) squares += at(i, j) * at(i, j);
  return std::sqrt(squares);
}

std::vector<double> UpperTriangle::diagonal() const {
  std::vector<double> diagonal;
  for (std::int64_t j = 0; j < n_; ++j) diagonal.push_back(at(j, j));
  return diagonal;
}

std::vector<double> UpperTriangle::column_norms() const {
  std::vector<double> norms;
  for (std::int64_t j = 0; j < n_; ++j) norms.push_back(column_norm(j));
  return norms;
}

void UpperTriangle::solve_with(char trans, std::vector<double>& v) const {
  assert(static_cast<std::int64_t>(v.size()) == n_);
  const auto n = static_cast<lapack_int>(n_);
  // _work: the plain interface looks for NaN in all of R first, which costs as much as the solve.
  const lapack_int info = LAPACKE_dtrtrs_work(LAPACK_COL_MAJOR, 'U', trans, 'N', n, 1, values_.data(), n, v.data(), n);
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_dtrtrs_work returned {}", info));
}

void UpperTriangle::solve(std::vector<double>& v) const { solve_with('N', v); }

void UpperTriangle::solve_transposed(std::vector<double>& v) const { solve_with('T', v); }

void UpperTriangle::multiply(std::vector<double>& v) const {
  const auto n = static_cast<int>(n_);
  cblas_dtrmv(CblasColMajor, CblasUpper, CblasNoTrans, CblasNonUnit, n, values_.data(), n, v.data(), 1);
}

void UpperTriangle::multiply_transposed(std::vector<double>& v) const {
  const auto n = static_cast<int>(n_);
  cblas_dtrmv(CblasColMajor, CblasUpper, CblasTrans, CblasNonUnit, n, values_.data(), n, v.data(), 1);
}

std::vector<double> UpperTriangle::inverse_row_norms() const {
  std::vector<double> inverse = values_;
  const auto n = static_cast<lapack_int>(n_);
  const lapack_int info = LAPACKE_dtrtri(LAPACK_COL_MAJOR, 'U', 'N', n, inverse.data(), n);
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_dtrtri returned {}", info));
  std::vector<double> norms(static_cast<std::size_t>(n_), 0.0);
  for (std::int64_t j = 0; j < n_; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      double& norm = norms[static_cast<std::size_t>(i)];
      norm = std::hypot(norm, inverse[static_cast<std::size_t>(j * n_ + i)]);
    }
  }
  return norms;
}

UpperTriangle UpperTriangle::shifted(double shift) const {
  UpperTriangle result = *this;
  std::vector<double> below(static_cast<std::size_t>(n_ * n_), 0.0);  // shift I, then the reflectors
  for (std::int64_t j = 0; j < n_; ++j) below[static_cast<std::size_t>(j * n_ + j)] = shift;
  const auto n = static_cast<lapack_int>(n_);
  const lapack_int block = std::min<lapack_int>(n, 64);
  std::vector<double> reflector_blocks(static_cast<std::size_t>(block * n_));
  const lapack_int info = LAPACKE_dtpqrt(LAPACK_COL_MAJOR, n, n, n, block, result.values_.data(), n, below.data(), n,
                                         reflector_blocks.data(), block);
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate the workspace of dtpqrt");
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_dtpqrt returned {}", info));
  return result;
}

}  // namespace tallsketch
