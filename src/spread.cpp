#include "src/spread.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace tallsketch {

Spread spread_of(std::vector<double> values) {
  assert(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return {values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2, values.front(), values.back()};
}

}  // namespace tallsketch
