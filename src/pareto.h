// Which of several methods nobody beats: the Pareto front of cost against error. Pure. Called by study coherence.
#pragma once

#include <vector>

namespace tallsketch {

struct CostAndError {
  double cost = 0;   // smaller is better
  double error = 0;  // smaller is better
};

/// [k]: no other point is at most as costly and at most as wrong as point k, and better in one of the two. Of equal points
/// all or none are on the front. A point that is not finite is not.
/// Cost  k log k operations
std::vector<bool> pareto_front(const std::vector<CostAndError>& points);

}  // namespace tallsketch
