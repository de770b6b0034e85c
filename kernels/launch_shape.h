// Grid sizes within CUDA's limits. Used by every launcher; pure, unit-tested on the host.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tallsketch::cuda {

inline constexpr std::int64_t kMaxGridX = 2147483647;
inline constexpr std::int64_t kMaxGridY = 65535;

/// Blocks that give every one of `items` a place with `per_block` each, at most `most`; kernels stride over the rest.
constexpr std::int64_t blocks_for(std::int64_t items, std::int64_t per_block, std::int64_t most) {
  return std::clamp<std::int64_t>((items + per_block - 1) / per_block, 1, most);
}

}  // namespace tallsketch::cuda
