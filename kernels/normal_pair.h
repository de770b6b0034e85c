// Standard normal numbers from random bits, on the device. Included by gaussian.cu and made_up.cu.
#pragma once

#include <cstdint>

namespace tallsketch::cuda {

/// Two independent N(0, 1) numbers from 64 random bits. Source: Box & Muller 1958; largest magnitude 6.7.
__device__ inline float2 normal_pair(std::uint32_t first, std::uint32_t second) {
  const float uniform = (static_cast<float>(first >> 8) + 0.5F) * 0x1p-24F;  // in (0, 1)
  const float radius = sqrtf(-2.0F * logf(uniform));
  float sine = 0, cosine = 0;
  sincospif(static_cast<float>(second) * 0x1p-31F, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

}  // namespace tallsketch::cuda
