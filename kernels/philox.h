// Philox4x32-10 of Random123 behind one function: the only source of randomness of a sketch.
// Called by sketch_rule.h and the synthetic rows. Stateless: equal arguments give equal words on host and device.
#pragma once

#include <cstdint>

#include <Random123/philox.h>

#include "kernels/host_device.h"

namespace tallsketch {

/// What a draw is for; part of the counter, so that no two uses share random words.
enum class DrawPurpose : std::uint32_t {
  kSigns = 0,
  kIndependentBuckets = 1,
  kBatchKeys = 2,
  kMatrixEntries = 3,
  kNoise = 4,
  kVectors = 5,
  kShuffle = 6,
  kWiring = 7,
  kRounding = 8,
  kSampledRows = 9,
  kGaussianEntries = 10,
};

/// 128 random bits.
struct RandomWords {
  std::uint32_t word[4];
};

/// Philox4x32-10 with key = seed and counter = (index, purpose, stream).
/// index   64-bit row, batch or element group
/// stream  block or draw number, so that one index can have many independent draws
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11 (Random123)
TALLSKETCH_HOST_DEVICE RandomWords random_words(std::uint64_t seed, std::int64_t index, DrawPurpose purpose,
                                                std::uint32_t stream) {
  const auto counter = static_cast<std::uint64_t>(index);
  r123::Philox4x32::ctr_type c;
  c.v[0] = static_cast<std::uint32_t>(counter);
  c.v[1] = static_cast<std::uint32_t>(counter >> 32);
  c.v[2] = static_cast<std::uint32_t>(purpose);
  c.v[3] = stream;
  r123::Philox4x32::key_type k;
  k.v[0] = static_cast<std::uint32_t>(seed);
  k.v[1] = static_cast<std::uint32_t>(seed >> 32);
  const r123::Philox4x32::ctr_type out = r123::Philox4x32{}(c, k);
  return {{out.v[0], out.v[1], out.v[2], out.v[3]}};
}

/// 64 random bits, from word pair `half` (0 or 1).
TALLSKETCH_HOST_DEVICE std::uint64_t word_pair(const RandomWords& words, int half) {
  return (static_cast<std::uint64_t>(words.word[2 * half + 1]) << 32) | words.word[2 * half];
}

/// Integer in [0, bound) by a 64-bit multiply-high; bias below bound / 2^64. bound < 2^32.
TALLSKETCH_HOST_DEVICE std::uint32_t bounded(std::uint64_t random, std::uint32_t bound) {
  const std::uint64_t high = (random >> 32) * bound;
  const std::uint64_t low = (random & 0xffffffffU) * bound;
  return static_cast<std::uint32_t>((high + (low >> 32)) >> 32);
}

}  // namespace tallsketch
