#include "src/preconditioner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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

/// y += factor * x
void add_multiple(double factor, const std::vector<double>& x, std::vector<double>& y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

/// Brings basis vectors w of a space in y to a basis of the same space in x = D y: column s has a 1 in its pivot row,
/// where later columns have zeros, and nothing much larger elsewhere. So no column is the noise of rows that D makes
/// large, which has nothing to do with A: Gaussian elimination, the largest element of D W first, but none that is
/// noise in W. exponent    D = diag(2^exponent)
/// negligible  elements of W up to this count as noise
void bring_to_x(const std::vector<int>& exponent, double negligible, std::vector<std::vector<double>>& w) {
  const std::size_t n = w.front().size();
  const auto size = [&](std::size_t i, double value) { return exponent[i] + std::log2(std::fabs(value)); };
  for (std::size_t s = 0; s < w.size(); ++s) {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    double largest = kNone;
    std::size_t row = 0, column = s;
    const auto look = [&](double above) {
      for (std::size_t j = s; j < w.size(); ++j) {
        for (std::size_t i = 0; i < n; ++i) {
          if (!(std::fabs(w[j][i]) > above) || size(i, w[j][i]) <= largest) continue;
          largest = size(i, w[j][i]);
          row = i;
          column = j;
        }
      }
    };
    look(negligible);
    if (largest == kNone) look(0);
    std::swap(w[s], w[column]);
    std::vector<double>& pivot = w[s];
    for (std::size_t i = 0; i < n; ++i) {
      if (exponent[i] > exponent[row] && std::fabs(pivot[i]) <= negligible) pivot[i] = 0;
    }
    for (std::size_t j = s + 1; j < w.size(); ++j) {
      add_multiple(-w[j][row] / pivot[row], pivot, w[j]);
      w[j][row] = 0;
    }
    const double scale = pivot[row];
    for (std::size_t i = 0; i < n; ++i) pivot[i] = std::ldexp(pivot[i] / scale, exponent[i] - exponent[row]);
  }
}

/// Gram-Schmidt, twice: it keeps small elements as accurate as they are, where reflections would add the rounding of
/// the largest.
void orthonormalise(std::vector<std::vector<double>>& w) {
  for (std::size_t s = 0; s < w.size(); ++s) {
    for (int round = 0; round < 2; ++round) {
      for (std::size_t t = 0; t < s; ++t) {
        add_multiple(-std::inner_product(w[t].begin(), w[t].end(), w[s].begin(), 0.0), w[t], w[s]);
      }
    }
    const double norm = norm_of(w[s]);
    for (double& value : w[s]) value /= norm;
  }
}

void require_done(lapack_int info, const char* routine) {
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory,
          fmt::format("LAPACK could not allocate the workspace of {}", routine));
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_{} returned {}", routine, info));
}

}  // namespace

TrianglePreconditioner::TrianglePreconditioner(std::shared_ptr<const Triangle> triangle)
    : triangle_(std::move(triangle)), column_norms_(triangle_->column_norms()), frobenius_(norm_of(column_norms_)) {
  require(invertible(*triangle_), ErrorKind::kInternal, "refinement needs an invertible factor of the sketch");
}

Preconditioner::Vector TrianglePreconditioner::apply(const Vector& z) const {
  Vector y = z;
  triangle_->solve(y);
  return y;
}

Preconditioner::Vector TrianglePreconditioner::apply_transposed(const Vector& g) const {
  Vector s = g;
  triangle_->solve_transposed(s);
  return s;
}

Preconditioner::Vector TrianglePreconditioner::row_norms() const { return triangle_->on_host().inverse_row_norms(); }

double TrianglePreconditioner::damped_norm(const Vector& g, double omega) const {
  Vector v = g;
  // A shift below the rounding of R changes nothing.
  if (!(omega > std::numeric_limits<double>::epsilon() * frobenius_)) {
    triangle_->solve_transposed(v);
    return norm_of(v);
  }
  const double shift = half_octave_below(omega);
  if (!shifted_ || shift != shift_) {
    shifted_ = triangle_->on_host().shifted(shift);
    shift_ = shift;
  }
  shifted_->solve_transposed(v);
  return norm_of(v);
}

SpectralPreconditioner::SpectralPreconditioner(const UpperTriangle& upper, double cutoff,
                                               const std::vector<int>& exponent)
    : n_(upper.size()), frobenius_(tallsketch::frobenius_norm(upper)) {
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
  k_ = std::count_if(sigma_.begin(), sigma_.end(), [&](double s) { return s > least; });
  for (std::int64_t j = 0; j < k_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) basis_.push_back(right_vector(i, j) / sigma_[static_cast<std::size_t>(j)]);
  }
  if (0 < k_ && k_ < n_) project_out_null_space(cutoff, exponent);
}

/// N from V_k / sigma_k by way of x = D y, whose null space D V_0 is projected out.
void SpectralPreconditioner::project_out_null_space(double cutoff, const std::vector<int>& exponent) {
  std::vector<Vector> null(static_cast<std::size_t>(n_ - k_));
  for (std::int64_t j = k_; j < n_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) null[static_cast<std::size_t>(j - k_)].push_back(right_vector(i, j));
  }
  // An error of cutoff in R turns V_0 by so much.
  const double noise = cutoff * sigma_.front() / sigma_[static_cast<std::size_t>(k_ - 1)];
  bring_to_x(exponent, std::min(noise, std::sqrt(cutoff)), null);
  orthonormalise(null);
  const int top = *std::max_element(exponent.begin(), exponent.begin() + n_);
  const auto scale = [&](Vector& v, int sign) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::ldexp(v[i], sign * (exponent[i] - top));
  };
  for (std::int64_t j = 0; j < k_; ++j) {
    Vector x(basis_.begin() + j * n_, basis_.begin() + (j + 1) * n_);
    scale(x, 1);
    // Twice, so that what rounding leaves of the null space is at the level of rounding.
    for (int round = 0; round < 2; ++round) {
      for (const Vector& q : null) add_multiple(-std::inner_product(q.begin(), q.end(), x.begin(), 0.0), q, x);
    }
    scale(x, -1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (column_norms_[i] == 0) x[i] = 0;  // a column of zeros: exactly
    }
    std::copy(x.begin(), x.end(), basis_.begin() + j * n_);
  }
}

std::vector<std::int64_t> SpectralPreconditioner::dependent_columns() const {
  const std::int64_t nullity = n_ - k_;
  if (nullity == 0) return {};
  Vector null;  // V_0^T, (n - k, n) column-major
  for (std::int64_t i = 0; i < n_; ++i) null.insert(null.end(), vt_.begin() + i * n_ + k_, vt_.begin() + (i + 1) * n_);
  const auto rows = static_cast<lapack_int>(nullity), cols = static_cast<lapack_int>(n_);
  Vector tau(static_cast<std::size_t>(nullity));
  std::vector<lapack_int> pivots(static_cast<std::size_t>(n_), 0);
  require_done(LAPACKE_dgeqp3(LAPACK_COL_MAJOR, rows, cols, null.data(), rows, pivots.data(), tau.data()), "dgeqp3");
  std::vector<std::int64_t> columns;
  for (std::int64_t j = 0; j < nullity; ++j) columns.push_back(pivots[static_cast<std::size_t>(j)] - 1);
  std::sort(columns.begin(), columns.end());
  return columns;
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
      along += right_vector(i, j) * g[static_cast<std::size_t>(i)];
    }
    const double damped = along / std::hypot(sigma_[static_cast<std::size_t>(j)], omega);
    squares += damped * damped;
  }
  return std::sqrt(squares);
}

}  // namespace tallsketch
