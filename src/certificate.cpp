#include "src/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tallsketch {

namespace {

/// The largest power of sqrt(2) that is not above value.
double half_octave_below(double value) {
  const double power = std::exp2(std::floor(2 * std::log2(value)) / 2);
  return power <= value ? power : power / std::sqrt(2.0);  // where log2 rounded up
}

}  // namespace

double norm_of(const std::vector<double>& v) {
  double largest = 0;
  for (const double value : v) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, std::fabs(value));
  }
  if (largest == 0) return 0;
  const int exponent = std::ilogb(largest);
  double squares = 0;
  for (const double value : v) {
    const double scaled = std::ldexp(value, -exponent);
    squares += scaled * scaled;
  }
  return std::ldexp(std::sqrt(squares), exponent);
}

BackwardErrorCertificate::BackwardErrorCertificate(const UpperTriangle& r) : r_(r), frobenius_(r.frobenius_norm()) {}

BackwardErrorCertificate::Weights BackwardErrorCertificate::weights(const NormalResidual& of) const {
  const double scale = std::hypot(of.solution_norm, of.rhs_norm / frobenius_);
  return {scale, of.residual_norm / scale};
}

double BackwardErrorCertificate::bound(const NormalResidual& of, double preconditioned_norm) const {
  const double gradient_norm = norm_of(of.gradient);
  if (gradient_norm == 0) return 0;
  const auto [scale, omega] = weights(of);
  return preconditioned_norm / std::hypot(1.0, omega * preconditioned_norm / gradient_norm) / (scale * frobenius_);
}

double BackwardErrorCertificate::estimate(const NormalResidual& of) {
  if (norm_of(of.gradient) == 0) return 0;
  const auto [scale, omega] = weights(of);
  std::vector<double> v = of.gradient;
  triangle_for(omega).solve_transposed(v);
  return norm_of(v) / (scale * frobenius_);
}

const UpperTriangle& BackwardErrorCertificate::triangle_for(double omega) {
  // A shift below the rounding of R changes nothing.
  if (!(omega > std::numeric_limits<double>::epsilon() * frobenius_)) return r_;
  const double shift = half_octave_below(omega);
  if (!shifted_ || shift != shift_) {
    shifted_ = r_.shifted(shift);
    shift_ = shift;
  }
  return *shifted_;
}

}  // namespace tallsketch
