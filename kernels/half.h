// Half precision as bit patterns: IEEE binary16 and bfloat16 to and from float and double.
// Called by the decoders, the host sketch and the conversion kernels. Needs no F16C and no rounding mode: what
// narrows is integer arithmetic without branches, so that host loops vectorise (AVX2 and up) and all backends agree.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace tallsketch {

// Bit patterns ---------------------------------------------------------------------------------------------------

TALLSKETCH_HOST_DEVICE std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
TALLSKETCH_HOST_DEVICE float float_of_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
TALLSKETCH_HOST_DEVICE std::uint64_t bits_of_double(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Widening: exact --------------------------------------------------------------------------------------------------

/// The value of a binary16. Exact: subnormals, infinities and signed zeros too; a NaN keeps its sign and payload.
TALLSKETCH_HOST_DEVICE float half_to_float(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7fffU;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t rebias = (127U - 15U) << 23;
  // Infinities and NaNs need the difference of the biases twice, to reach exponent 255.
  const std::uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00U ? 2 * rebias : rebias);
  // A subnormal is a small integer times 2^-24: no float subnormal appears, so flush-to-zero modes do no harm. Chosen
  // by a mask, not by ?:, because GCC would put the multiplication behind a branch, and the loop would not vectorise.
  const std::uint32_t subnormal = bits_of_float(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t is_subnormal = 0U - static_cast<std::uint32_t>(magnitude < 0x0400U);
  return float_of_bits(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
}
TALLSKETCH_HOST_DEVICE double half_to_double(std::uint16_t half) { return static_cast<double>(half_to_float(half)); }

/// The value of a bfloat16: the upper half of a float. Exact.
TALLSKETCH_HOST_DEVICE float bfloat16_to_float(std::uint16_t bfloat16) {
  return float_of_bits(static_cast<std::uint32_t>(bfloat16) << 16);
}
TALLSKETCH_HOST_DEVICE double bfloat16_to_double(std::uint16_t bfloat16) {
  return static_cast<double>(bfloat16_to_float(bfloat16));
}

// Narrowing: round to nearest, ties to even; overflow gives infinity; a NaN stays a (quiet) NaN ---------------------

/// x / 2^shift rounded to nearest even; 1 <= shift, x + 2^(shift - 1) below the word's range.
TALLSKETCH_HOST_DEVICE std::uint32_t shift_right_even(std::uint32_t x, std::uint32_t shift) {
  return (x + (1U << (shift - 1)) - 1 + ((x >> shift) & 1)) >> shift;
}
TALLSKETCH_HOST_DEVICE std::uint64_t shift_right_even(std::uint64_t x, std::uint64_t shift) {
  return (x + (std::uint64_t{1} << (shift - 1)) - 1 + ((x >> shift) & 1)) >> shift;
}

/// The binary16 nearest to a float; 65520 and above become infinity, 2^-25 and below zero.
TALLSKETCH_HOST_DEVICE std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t significand = (magnitude & 0x007fffffU) | 0x00800000U;
  // Below 2^-14 the result counts units of 2^-24; from 31 bits on the shift leaves nothing.
  const std::uint32_t wanted = 126U - (exponent < 113U ? exponent : 112U);
  const std::uint32_t subnormal = shift_right_even(significand, wanted < 31U ? wanted : 31U);
  const std::uint32_t clamped = magnitude < 0x47800000U ? magnitude : 0x47800000U;  // 2^16: already infinity
  const std::uint32_t normal = shift_right_even(clamped - ((127U - 15U) << 23), 13U);
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x03ffU);
  const std::uint32_t finite = exponent < 113U ? subnormal : normal;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | (magnitude > 0x7f800000U ? nan : finite));
}

/// The bfloat16 nearest to a float.
TALLSKETCH_HOST_DEVICE std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = bits_of_float(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t nan = 0x7fc0U | ((magnitude >> 16) & 0x7fU);
  const std::uint32_t finite = shift_right_even(magnitude, 16U);
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | (magnitude > 0x7f800000U ? nan : finite));
}

/// A double rounded once to a 16-bit format with `fraction_bits` stored bits and exponent bias `bias`.
TALLSKETCH_HOST_DEVICE std::uint16_t round_double_to_16_bits(double value, std::uint64_t fraction_bits,
                                                             std::uint64_t bias) {
  const std::uint64_t bits = bits_of_double(value);
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffU;
  const std::uint64_t exponent = magnitude >> 52;
  const std::uint64_t significand = (magnitude & 0x000fffffffffffffU) | 0x0010000000000000U;
  const std::uint64_t rebias = 1023U - bias;
  const std::uint64_t dropped = 52U - fraction_bits;
  const std::uint64_t first_normal = rebias + 1;  // exponent of the smallest normal result
  const std::uint64_t below = first_normal - (exponent < first_normal ? exponent : rebias);
  const std::uint64_t wanted = dropped + below;
  const std::uint64_t subnormal = shift_right_even(significand, wanted < 63U ? wanted : std::uint64_t{63});
  const std::uint64_t top = (1023U + bias + 1) << 52;  // 2^(bias + 1): already infinity
  const std::uint64_t clamped = magnitude < top ? magnitude : top;
  const std::uint64_t normal = shift_right_even(clamped - (rebias << 52), dropped);
  const std::uint64_t infinity = (2 * bias + 1) << fraction_bits;
  const std::uint64_t quiet = std::uint64_t{1} << (fraction_bits - 1);
  const std::uint64_t nan = infinity | quiet | ((magnitude >> dropped) & (2 * quiet - 1));
  const std::uint64_t finite = exponent < first_normal ? subnormal : normal;
  return static_cast<std::uint16_t>(((bits >> 48) & 0x8000U) | (magnitude > 0x7ff0000000000000U ? nan : finite));
}

/// The binary16 nearest to a double; not by way of float, which would round twice.
TALLSKETCH_HOST_DEVICE std::uint16_t double_to_half(double value) { return round_double_to_16_bits(value, 10, 15); }

/// The bfloat16 nearest to a double; not by way of float.
TALLSKETCH_HOST_DEVICE std::uint16_t double_to_bfloat16(double value) { return round_double_to_16_bits(value, 7, 127); }

}  // namespace tallsketch
