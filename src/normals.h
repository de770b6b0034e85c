// Standard normal numbers from counters: equal wherever and in whatever order they are drawn.
// Called by the synthetic problems and the studies.
#pragma once

#include <cstdint>

#include "kernels/philox.h"

namespace tallsketch {

/// out[j] = g, standard normal, for j in [0, count), from counters (index, purpose, j / 4).
/// Limits: a single precision Box-Muller; |g| stays below 6.7
/// Source: Random123, boxmuller.hpp
void normals(std::uint64_t seed, std::int64_t index, DrawPurpose purpose, std::int64_t count, double* out);

}  // namespace tallsketch
