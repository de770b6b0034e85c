// Division and rounding upwards, for sizes. Host and device; used everywhere.
#pragma once

#include <cstdint>

namespace tallsketch {

/// a / b rounded up; a >= 0, b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The least multiple of b that is >= a.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

}  // namespace tallsketch
