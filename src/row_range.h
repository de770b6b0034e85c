// RowRange: consecutive global rows. Used by the plan, the sources and the passes.
#pragma once

#include <cstdint>

namespace tallsketch {

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // one past the last
  std::int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
};

}  // namespace tallsketch
