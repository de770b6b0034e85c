// A keyed random bijection of {0, ..., size - 1} that needs no table and no sort, and its inverse.
// Called by sketch_rule.h to deal the rows of a batch to the buckets of a block, on host and device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace tallsketch {

/// Unbalanced Feistel network on the smallest power of two >= size, closed over [0, size) by cycle walking.
/// Fewer than two walks are expected, and none when size is a power of two.
/// Source: Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002. The number of rounds is
/// chosen by tests/stat/rule_statistics_test.cpp (positions and pairs uniform; figures in docs/decisions/0003). Six
/// rounds are good from size 257 on; on domains of a few dozen no number of rounds tried is.
struct KeyedBijection {
  static constexpr int kRounds = 6;

  std::uint32_t size;  // 1 <= size <= 2^30
  std::uint32_t left_bits;
  std::uint32_t right_bits;
  std::uint32_t key[kRounds];  // one a round
};

/// Bits of the smallest power of two >= size; at least 2, so that both Feistel halves exist.
TALLSKETCH_HOST_DEVICE std::uint32_t domain_bits(std::uint32_t size) {
  std::uint32_t bits = 2;
  while ((std::uint32_t{1} << bits) < size) ++bits;
  return bits;
}

/// Three random words key six rounds: rounds 3 to 5 use them rotated and offset, so that no two keys are equal.
TALLSKETCH_HOST_DEVICE KeyedBijection make_keyed_bijection(std::uint32_t size, std::uint32_t key0, std::uint32_t key1,
                                                           std::uint32_t key2) {
  const std::uint32_t bits = domain_bits(size);
  KeyedBijection b{size, bits / 2, bits - bits / 2, {key0, key1, key2, 0, 0, 0}};
  for (int i = 0; i < 3; ++i) b.key[3 + i] = ((b.key[i] << 16) | (b.key[i] >> 16)) + 0x7f4a7c15U;
  return b;
}

/// Round function: a multiply-xorshift mixer of (half, key); the caller keeps the top bits it needs.
TALLSKETCH_HOST_DEVICE std::uint32_t mix_round(std::uint32_t half, std::uint32_t key) {
  std::uint32_t x = (half ^ key) * 0x9e3779b1U;  // 2^32 / golden ratio, odd
  x ^= x >> 15;
  return x * 0x85ebca6bU;  // an odd constant with good avalanche (MurmurHash3's finaliser)
}

/// One pass of the Feistel network over the power-of-two domain.
TALLSKETCH_HOST_DEVICE std::uint32_t feistel_forward(const KeyedBijection& b, std::uint32_t x) {
  std::uint32_t left = x >> b.right_bits;
  std::uint32_t right = x & ((std::uint32_t{1} << b.right_bits) - 1);
  for (int round = 0; round < KeyedBijection::kRounds; round += 2) {
    left ^= mix_round(right, b.key[round]) >> (32 - b.left_bits);
    right ^= mix_round(left, b.key[round + 1]) >> (32 - b.right_bits);
  }
  return (left << b.right_bits) | right;
}

/// Inverse of feistel_forward.
TALLSKETCH_HOST_DEVICE std::uint32_t feistel_backward(const KeyedBijection& b, std::uint32_t x) {
  std::uint32_t left = x >> b.right_bits;
  std::uint32_t right = x & ((std::uint32_t{1} << b.right_bits) - 1);
  for (int round = KeyedBijection::kRounds - 2; round >= 0; round -= 2) {
    right ^= mix_round(left, b.key[round + 1]) >> (32 - b.right_bits);
    left ^= mix_round(right, b.key[round]) >> (32 - b.left_bits);
  }
  return (left << b.right_bits) | right;
}

/// Image of position x, 0 <= x < size.
TALLSKETCH_HOST_DEVICE std::uint32_t bijection_forward(const KeyedBijection& b, std::uint32_t x) {
  do x = feistel_forward(b, x);
  while (x >= b.size);
  return x;
}

/// Position of image x, 0 <= x < size.
TALLSKETCH_HOST_DEVICE std::uint32_t bijection_backward(const KeyedBijection& b, std::uint32_t x) {
  do x = feistel_backward(b, x);
  while (x >= b.size);
  return x;
}

}  // namespace tallsketch
