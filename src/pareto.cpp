#include "src/pareto.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tallsketch {

std::vector<bool> pareto_front(const std::vector<CostAndError>& points) {
  std::vector<std::size_t> order;
  for (std::size_t k = 0; k < points.size(); ++k) {
    if (std::isfinite(points[k].cost) && std::isfinite(points[k].error)) order.push_back(k);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return points[a].cost < points[b].cost || (points[a].cost == points[b].cost && points[a].error < points[b].error);
  });
  std::vector<bool> front(points.size(), false);
  CostAndError best{0, std::numeric_limits<double>::infinity()};  // of those not dearer, the last one on the front
  for (const std::size_t k : order) {
    const bool equal = points[k].cost == best.cost && points[k].error == best.error;
    if (points[k].error >= best.error && !equal) continue;
    front[k] = true;
    best = points[k];
  }
  return front;
}

}  // namespace tallsketch
