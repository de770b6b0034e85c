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

/// Round function: a multiply-xorshift mixer of half ^ key; the caller keeps the top bits it needs.
TALLSKETCH_HOST_DEVICE std::uint32_t mix_round(std::uint32_t keyed_half) {
  std::uint32_t x = keyed_half * 0x9e3779b1U;  // 2^32 / golden ratio, odd
  x ^= x >> 15;
  return x * 0x85ebca6bU;  // an odd constant with good avalanche (MurmurHash3's finaliser)
}

/// One pass of the Feistel network over the power-of-two domain.
TALLSKETCH_HOST_DEVICE std::uint32_t feistel_forward(const KeyedBijection& b, std::uint32_t x) {
  std::uint32_t left = x >> b.right_bits;
  std::uint32_t right = x & ((std::uint32_t{1} << b.right_bits) - 1);
  for (int round = 0; round < KeyedBijection::kRounds; round += 2) {
    left ^= mix_round(right ^ b.key[round]) >> (32 - b.left_bits);
    right ^= mix_round(left ^ b.key[round + 1]) >> (32 - b.right_bits);
  }
  return (left << b.right_bits) | right;
}

/// The keys as the inverse takes them. Its halves stay keyed for the round to come, so that a round's last two
/// exclusive-ors, with the half and with the key, are one instruction of three operands.
struct InverseKeys {
  std::uint32_t word[8];
};
TALLSKETCH_HOST_DEVICE InverseKeys inverse_keys(const KeyedBijection& b) {
  static_assert(KeyedBijection::kRounds == 6);
  const std::uint32_t* const k = b.key;
  return {{k[5], k[4], k[5] ^ k[3], k[4] ^ k[2], k[3] ^ k[1], k[2] ^ k[0], k[1], k[0]}};
}

/// Inverse of feistel_forward; left_bits and right_bits are the bijection's.
TALLSKETCH_HOST_DEVICE std::uint32_t feistel_backward(std::uint32_t left_bits, std::uint32_t right_bits,
                                                      const InverseKeys& keys, std::uint32_t x) {
  const std::uint32_t to_left = 32 - left_bits, to_right = 32 - right_bits;
  std::uint32_t left = (x >> right_bits) ^ keys.word[0];
  std::uint32_t right = (x & ((std::uint32_t{1} << right_bits) - 1)) ^ keys.word[1];
  right ^= mix_round(left) >> to_right;
  left ^= keys.word[2] ^ (mix_round(right) >> to_left);
  right ^= keys.word[3] ^ (mix_round(left) >> to_right);
  left ^= keys.word[4] ^ (mix_round(right) >> to_left);
  right ^= keys.word[5] ^ (mix_round(left) >> to_right);
  left ^= keys.word[6] ^ (mix_round(right) >> to_left);
  right ^= keys.word[7];
  return (left << right_bits) | right;
}
TALLSKETCH_HOST_DEVICE std::uint32_t feistel_backward(const KeyedBijection& b, std::uint32_t x) {
  return feistel_backward(b.left_bits, b.right_bits, inverse_keys(b), x);
}

/// Image of position x, 0 <= x < size.
TALLSKETCH_HOST_DEVICE std::uint32_t bijection_forward(const KeyedBijection& b, std::uint32_t x) {
  do x = feistel_forward(b, x);
  while (x >= b.size);
  return x;
}

/// Position of image x, 0 <= x < size. keys: inverse_keys(b), or those of another bijection of the same size.
TALLSKETCH_HOST_DEVICE std::uint32_t bijection_backward(const KeyedBijection& b, const InverseKeys& keys,
                                                        std::uint32_t x) {
  do x = feistel_backward(b.left_bits, b.right_bits, keys, x);
  while (x >= b.size);
  return x;
}
TALLSKETCH_HOST_DEVICE std::uint32_t bijection_backward(const KeyedBijection& b, std::uint32_t x) {
  return bijection_backward(b, inverse_keys(b), x);
}

}  // namespace tallsketch
