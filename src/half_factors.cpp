#include "src/half_factors.h"

#include <algorithm>
#include <cmath>

namespace tallsketch {

double half_factor_of_column(const SketchSpec& spec, float largest, double squares) {
  constexpr int kTarget = 12, kLeast = -126, kMost = 127;  // the factor itself is a normal float
  const double spread = 8 * std::sqrt(squares * spec.zeta / static_cast<double>(spec.d));
  const double reach = std::max(static_cast<double>(largest), spread);
  const int exponent = reach > 0 && std::isfinite(reach) ? kTarget - std::ilogb(reach) : 0;
  return std::ldexp(1.0, std::clamp(exponent, kLeast, kMost));
}

double fixed_half_factor(const SketchSpec& spec, ScalingChoice scaling) {
  return scaling == ScalingChoice::kNone ? 1 / std::sqrt(double(spec.zeta)) : 1.0;
}

}  // namespace tallsketch
