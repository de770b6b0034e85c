// CheckRows: rows of a finished sketch that the reduced problem leaves out, so that they can judge x: x has not seen them.
// Used by the factorisations of both backends and by the solver's a-posteriori estimate.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace tallsketch {

/// Rows first, first + stride, ..., count of them. Spread evenly, so that they fall into every block of every family.
struct CheckRows {
  std::int64_t count = 0;
  std::int64_t stride = 1;
  std::int64_t first = 0;

  TALLSKETCH_HOST_DEVICE bool holds(std::int64_t row) const {
    return count > 0 && row >= first && (row - first) % stride == 0 && (row - first) / stride < count;
  }
};

/// count of d rows; 0 <= count < d.
constexpr CheckRows make_check_rows(std::int64_t d, std::int64_t count) {
  if (count == 0) return {};
  const std::int64_t stride = d / count;
  return {count, stride, stride / 2};
}

}  // namespace tallsketch
