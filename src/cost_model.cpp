#include "src/cost_model.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tallsketch {

double expected_passes(double tolerance, double ratio) {
  // The first judgement, the last, and one for the round in which rounding is corrected; e^9 is what the sketch's solution
  // has already, and a residual that is not as large as b.
  constexpr double kFixed = 3, kHeadStart = 9;
  const double e_folds = std::max(1.0, -std::log(tolerance) - kHeadStart);
  return kFixed + e_folds / std::log(std::sqrt(ratio));
}

Route cheapest_route(const SolveCosts& costs, std::int64_t n, double tolerance, const RouteLimits& limits) {
  Route route;
  route.gram_seconds = costs.gram + kGramPasses * costs.pass;
  const auto columns = static_cast<double>(n);
  const auto consider = [&](double ratio) {
    const double seconds = costs.sketch(static_cast<std::int64_t>(std::ceil(ratio * columns))) +
                           expected_passes(tolerance, ratio) * costs.pass;
    if (route.oversample > 0 && seconds >= route.sketch_seconds) return;
    route.oversample = ratio;
    route.sketch_seconds = seconds;
  };
  if (limits.oversample > 0) {
    consider(limits.oversample);
  } else {
    for (const double ratio : {2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0}) {
      if (ratio == 2.0 || ratio <= limits.most_oversample) consider(ratio);
    }
  }
  if (limits.gram_allowed && route.gram_seconds < route.sketch_seconds) route.compression = Compression::kGram;
  return route;
}

std::string describe(const Route& route) {
  const auto text = [](double seconds) { return fmt::format("{:.2g} s", seconds); };
  return fmt::format("predicted after the first read of A: {} by a sketch with d = {} n, {} by the Gram matrix",
                     text(route.sketch_seconds), route.oversample, text(route.gram_seconds));
}

}  // namespace tallsketch
