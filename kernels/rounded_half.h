// How a product becomes a 16-bit contribution to a sketch: to nearest, stochastically or dithered (paper F, III-D).
// Called by scatter.cu, and exhaustively by its test on the host. The formats themselves: half.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/philox.h"
#include "kernels/sketch_spec.h"

namespace tallsketch {

// The two formats ---------------------------------------------------------------------------------------------------

struct Binary16 {
  static constexpr std::uint32_t kFractionBits = 10, kBias = 15;
  static constexpr float kSmallest = 0x1p-24F, kSafe = 0x1p15F;
};

struct Bfloat16 {
  static constexpr std::uint32_t kFractionBits = 7, kBias = 127;
  static constexpr float kSmallest = 0x1p-133F, kSafe = 0x1p127F;
};

template <class Format>
inline constexpr std::uint32_t kInfinityPattern = (2 * Format::kBias + 1) << Format::kFractionBits;

// Random bits -------------------------------------------------------------------------------------------------------

/// Blocks of S that one Philox call serves, for a pair of columns: eight conversions of 32 bits each out of 128.
inline constexpr int kBlocksPerDraw = 4;
static_assert(kMaxZeta / kBlocksPerDraw <= 256, "the number of a group of blocks has eight bits of the counter");

/// The words for blocks 4 * group to 4 * group + 3 of a global row and of columns 2 * pair and 2 * pair + 1.
/// Nothing else enters: not the grid, not the chunk, not the rank.
/// pair  below 2^24: a sketch of 2^25 columns fits no device
TALLSKETCH_HOST_DEVICE RandomWords rounding_words(std::uint64_t seed, std::int64_t row, std::uint32_t pair,
                                                  std::uint32_t group) {
  return random_words(seed, row, DrawPurpose::kRounding, pair << 8 | group);
}

/// 32 random bits for conversion k of 8: windows of the 128 bits that overlap by 16. The upper 16 bits of each belong to
/// it alone, and they alone decide where a conversion drops up to 16 bits: all BF16 numbers, halves from 2^-17 on. Below,
/// two conversions that share bits go to different elements of the sketch, never into one sum.
TALLSKETCH_HOST_DEVICE std::uint32_t rounding_bits(const RandomWords& words, int k) {
  const std::uint32_t word = words.word[k / 2], next = words.word[(k / 2 + 1) % 4];
  return k % 2 == 0 ? word : word >> 16 | next << 16;
}

// Conversions -------------------------------------------------------------------------------------------------------

/// Where a number lies in a 16-bit format.
struct Bracket {
  std::uint32_t lower;  // pattern of the neighbour towards zero (itself, if it is one); lower + 1 is the other
  std::uint32_t above;  // its distance from it, in units of the gap / 2^32
};

/// The neighbours of q. Exact where the gap is at most 2^32 units of q's last place: from 2^-33 on for halves, always for
/// BF16; below, `above` is rounded down. Infinity is the upper neighbour of the largest finite number, as if it were 2^(bias + 1).
template <class Format>
TALLSKETCH_HOST_DEVICE Bracket bracket(float q) {
  constexpr std::uint32_t kFirstNormal = 128 - Format::kBias;  // exponent field of the smallest normal number
  constexpr std::uint32_t kOverflow = (128 + Format::kBias) << 23;
  const std::uint32_t bits = bits_of_float(q);
  const std::uint32_t sign = bits >> 16 & 0x8000U, magnitude = bits & 0x7fffffffU;
  if (magnitude >= kOverflow) return {sign | kInfinityPattern<Format> | (magnitude > 0x7f800000U ? 1U : 0U), 0};
  const bool normal = magnitude >= 0x00800000U;
  const std::uint32_t exponent = normal ? magnitude >> 23 : 1;
  const std::uint32_t significand = (magnitude & 0x007fffffU) | (normal ? 0x00800000U : 0U);
  const std::uint32_t dropped =
      23 - Format::kFractionBits + (exponent < kFirstNormal ? kFirstNormal - exponent : 0);  // bits of the significand
  const std::uint64_t fixed = dropped < 64 ? (static_cast<std::uint64_t>(significand) << 32) >> dropped : 0;
  const std::uint32_t binades = exponent > kFirstNormal ? exponent - kFirstNormal : 0;
  return {sign | (static_cast<std::uint32_t>(fixed >> 32) + (binades << Format::kFractionBits)),
          static_cast<std::uint32_t>(fixed)};
}

/// Stochastic rounding: away from zero with probability (q - l) / (v - l), which uniform 32 bits realise exactly wherever
/// the bracket is exact.
TALLSKETCH_HOST_DEVICE std::uint32_t round_stochastically(const Bracket& q, std::uint32_t random) {
  return q.lower + (random < q.above ? 1U : 0U);
}

/// q (1 + c u), u uniform in [-1/2, 1/2], to be rounded to nearest. The paper leaves its c open; here c |q| is half a gap
/// at the lower end of a binade and one at the upper, the most that leaves 16-bit numbers as they are. Unbiased only there.
template <class Format>
TALLSKETCH_HOST_DEVICE float dithered(float q, std::uint32_t random) {
  constexpr float kWidth = 0.5F / (1U << Format::kFractionBits);
  const float u = static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-32F;
  return fmaf(q * kWidth, u, q);
}

// Losses ------------------------------------------------------------------------------------------------------------

/// Contributions that a 16-bit format could not take.
struct RoundingLosses {
  unsigned long long overflowed = 0;  // finite product, infinite contribution
  unsigned long long flushed = 0;     // product not zero, contribution zero
};

/// No conversion of this product can be a loss: the cheap test that almost all pass (not zero and not NaN).
template <class Format>
TALLSKETCH_HOST_DEVICE bool is_safe(float product) {
  return fabsf(product) >= Format::kSmallest && fabsf(product) <= Format::kSafe;
}

template <class Format>
TALLSKETCH_HOST_DEVICE bool has_overflowed(float product, std::uint32_t pattern) {
  return (pattern & 0x7fffU) == kInfinityPattern<Format> && (bits_of_float(product) & 0x7fffffffU) < 0x7f800000U;
}

TALLSKETCH_HOST_DEVICE bool was_flushed(float product, std::uint32_t pattern) {
  return (pattern & 0x7fffU) == 0 && product != 0;
}

}  // namespace tallsketch
