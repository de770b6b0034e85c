#include "src/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tallsketch {

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

double BackwardErrorCertificate::estimate(const NormalResidual& of) const {
  if (norm_of(of.gradient) == 0) return 0;
  const auto [scale, omega] = weights(of);
  return preconditioner_.damped_norm(of.gradient, omega) / (scale * frobenius_);
}

}  // namespace tallsketch
