// Spread: how the figures of several seeds lie. Pure; used by the studies.
#pragma once

#include <vector>

namespace tallsketch {

/// Median (the mean of the middle two for an even count), least and largest of some values.
struct Spread {
  double median = 0, least = 0, largest = 0;
};
/// values  not empty
Spread spread_of(std::vector<double> values);

}  // namespace tallsketch
