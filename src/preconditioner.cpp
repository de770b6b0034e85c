#include "src/preconditioner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <cblas.h>
#include <lapacke.h>

#include "src/certificate.h"
#include "src/error.h"

namespace tallsketch {

namespace {

/// The largest power of sqrt(2) that is not above value.
double half_octave_below(double value) {
  const double power = std::exp2(std::floor(2 * std::log2(value)) / 2);
  return power <= value ? power : power / std::sqrt(2.0);  // where log2 rounded up
}

/// out = op(a) v, a (rows, cols) column-major
std::vector<double> product(CBLAS_TRANSPOSE op, const std::vector<double>& a, std::int64_t rows, std::int64_t cols,
                            const std::vector<double>& v) {
  std::vector<double> out(static_cast<std::size_t>(op == CblasTrans ? cols : rows));
  if (out.empty()) return out;
  const auto m = static_cast<int>(rows), n = static_cast<int>(cols);
  cblas_dgemv(CblasColMajor, op, m, n, 1.0, a.data(), m, v.data(), 1, 0.0, out.data(), 1);
  return out;
}

void require_done(lapack_int info, const char* routine) {
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory,
          fmt::format("LAPACK could not allocate the workspace of {}", routine));
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_{} returned {}", routine, info));
}

}  // namespace

TrianglePreconditioner::TrianglePreconditioner(UpperTriangle upper)
    : upper_(std::move(upper)), frobenius_(upper_.frobenius_norm()) {
  require(upper_.invertible(), ErrorKind::kInternal, "refinement needs an invertible factor of the sketch");
}

Preconditioner::Vector TrianglePreconditioner::apply(const Vector& z) const {
  Vector y = z;
  upper_.solve(y);
  return y;
}

Preconditioner::Vector TrianglePreconditioner::apply_transposed(const Vector& g) const {
  Vector s = g;
  upper_.solve_transposed(s);
  return s;
}

Preconditioner::Vector TrianglePreconditioner::row_norms() const { return upper_.inverse_row_norms(); }

double TrianglePreconditioner::damped_norm(const Vector& g, double omega) const {
  Vector v = g;
  // A shift below the rounding of R changes nothing.
  if (!(omega > std::numeric_limits<double>::epsilon() * frobenius_)) {
    upper_.solve_transposed(v);
    return norm_of(v);
  }
  const double shift = half_octave_below(omega);
  if (!shifted_ || shift != shift_) {
    shifted_ = upper_.shifted(shift);
    shift_ = shift;
  }
  shifted_->solve_transposed(v);
  return norm_of(v);
}

SpectralPreconditioner::SpectralPreconditioner(const UpperTriangle& upper, double cutoff,
                                               const std::vector<int>& exponent)
    : n_(upper.size()), frobenius_(upper.frobenius_norm()) {
  const auto n = static_cast<lapack_int>(n_);
  const auto squared = static_cast<std::size_t>(n_ * n_);
  Vector r(squared, 0.0);
  for (std::int64_t j = 0; j < n_; ++j) {
    column_norms_.push_back(upper.column_norm(j));
    for (std::int64_t i = 0; i <= j; ++i) r[static_cast<std::size_t>(j * n_ + i)] = upper.at(i, j);
  }
  sigma_.resize(static_cast<std::size_t>(n_));
  u_.resize(squared);
  vt_.resize(squared);
  require_done(LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'A', n, n, r.data(), n, sigma_.data(), u_.data(), n, vt_.data(), n),
               "dgesdd");
  const double least = cutoff * sigma_.front();
  k_ = std::count_if(sigma_.begin(), sigma_.end(), [&](double s) { return s > least; });  // 0: R = 0, and then N = 0
  project_out_null_space(exponent);
}

/// N from V: as V_k / sigma_k where rank is full, otherwise by way of x = D y, whose null space D V_0 is projected out.
void SpectralPreconditioner::project_out_null_space(const std::vector<int>& exponent) {
  const auto at = [&](std::int64_t i, std::int64_t j) { return vt_[static_cast<std::size_t>(i * n_ + j)]; };  // V(i, j)
  basis_.resize(static_cast<std::size_t>(n_ * k_));
  for (std::int64_t j = 0; j < k_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) {
      basis_[static_cast<std::size_t>(j * n_ + i)] = at(i, j) / sigma_[static_cast<std::size_t>(j)];
    }
  }
  const std::int64_t nullity = n_ - k_;
  if (nullity == 0 || k_ == 0) return;
  const int top = *std::max_element(exponent.begin(), exponent.begin() + n_);
  const auto scaled = [&](double value, std::int64_t i, int sign) {
    return std::ldexp(value, sign * (exponent[static_cast<std::size_t>(i)] - top));
  };
  Vector null(static_cast<std::size_t>(n_ * nullity)), tau(static_cast<std::size_t>(nullity));
  for (std::int64_t j = 0; j < nullity; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) null[static_cast<std::size_t>(j * n_ + i)] = scaled(at(i, k_ + j), i, 1);
  }
  const auto n = static_cast<int>(n_), k = static_cast<int>(k_), dim = static_cast<int>(nullity);
  require_done(LAPACKE_dgeqrf(LAPACK_COL_MAJOR, n, dim, null.data(), n, tau.data()), "dgeqrf");
  require_done(LAPACKE_dorgqr(LAPACK_COL_MAJOR, n, dim, dim, null.data(), n, tau.data()), "dorgqr");
  for (std::int64_t j = 0; j < k_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) {
      double& value = basis_[static_cast<std::size_t>(j * n_ + i)];
      value = scaled(value, i, 1);
    }
  }
  // Twice, so that what rounding leaves of the null space is at the level of rounding.
  Vector parts(static_cast<std::size_t>(nullity * k_));
  for (int round = 0; round < 2; ++round) {
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, dim, k, n, 1.0, null.data(), n, basis_.data(), n, 0.0,
                parts.data(), dim);
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, k, dim, -1.0, null.data(), n, parts.data(), dim, 1.0,
                basis_.data(), n);
  }
  for (std::int64_t j = 0; j < k_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) {
      double& value = basis_[static_cast<std::size_t>(j * n_ + i)];
      // A column of zeros: exactly 0 in x.
      value = column_norms_[static_cast<std::size_t>(i)] == 0 ? 0 : scaled(value, i, -1);
    }
  }
}

Preconditioner::Vector SpectralPreconditioner::project(const Vector& c) const {
  return product(CblasTrans, u_, n_, k_, c);
}

Preconditioner::Vector SpectralPreconditioner::apply(const Vector& z) const {
  return product(CblasNoTrans, basis_, n_, k_, z);
}

Preconditioner::Vector SpectralPreconditioner::apply_transposed(const Vector& g) const {
  return product(CblasTrans, basis_, n_, k_, g);
}

Preconditioner::Vector SpectralPreconditioner::row_norms() const {
  Vector norms(static_cast<std::size_t>(n_), 0.0);
  for (std::int64_t j = 0; j < k_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) {
      double& norm = norms[static_cast<std::size_t>(i)];
      norm = std::hypot(norm, basis_[static_cast<std::size_t>(j * n_ + i)]);
    }
  }
  return norms;
}

double SpectralPreconditioner::damped_norm(const Vector& g, double omega) const {
  double squares = 0;
  for (std::int64_t j = 0; j < k_; ++j) {
    double along = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      along += vt_[static_cast<std::size_t>(i * n_ + j)] * g[static_cast<std::size_t>(i)];
    }
    const double damped = along / std::hypot(sigma_[static_cast<std::size_t>(j)], omega);
    squares += damped * damped;
  }
  return std::sqrt(squares);
}

}  // namespace tallsketch
