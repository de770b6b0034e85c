// What decoding must give, element by element and as plainly as can be; stored elements of every kind to decode.
// Called by decode_host_test and cuda/decode_test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/encoding.h"

namespace tallsketch {

inline constexpr StoredType kStoredTypes[] = {StoredType::kFloat16, StoredType::kBfloat16, StoredType::kFloat32,
                                              StoredType::kFloat64, StoredType::kInt8,     StoredType::kUint8,
                                              StoredType::kInt16,   StoredType::kUint16,   StoredType::kInt32,
                                              StoredType::kUint32,  StoredType::kInt64,    StoredType::kUint64};

/// The types that a stored one may become.
inline std::vector<ElementType> decoded_types(StoredType type) {
  if (element_type_of(type) != ElementType::kFloat64) return {element_type_of(type)};
  return {ElementType::kFloat64, ElementType::kFloat32};
}

/// Elements of random bits, without NaNs (their payload is nobody's business) but with the extremes of integers, FP64 on
/// both sides of what FP32 holds, and ties.
inline std::vector<std::byte> stored_elements(StoredType type, std::int64_t count, std::uint64_t seed) {
  const auto width = static_cast<std::size_t>(stored_size(type));
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * width);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15U + 1;
  for (std::int64_t k = 0; k < count; ++k) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::uint64_t bits = state ^ (state >> 29);
    if (k % 7 == 1) bits = 0;
    if (k % 7 == 2) bits = ~std::uint64_t{0};
    if (k % 7 == 3) bits = std::uint64_t{1} << (8 * width - 1);
    if (type == StoredType::kFloat64) {
      double value = static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63;
      if (k % 11 == 4) value *= 1e300;
      if (k % 11 == 5) value *= 1e-42;           // FP32 subnormal
      if (k % 11 == 6) value = 1 + 0x1p-24;      // a tie, down to even
      if (k % 11 == 7) value = 1 + 3 * 0x1p-24;  // a tie, up to even
      std::memcpy(&bits, &value, 8);
    }
    if (type == StoredType::kInt64 || type == StoredType::kUint64) bits >>= k % 5 * 11;
    if (type == StoredType::kFloat32 && (bits & 0x7f800000U) == 0x7f800000U) bits &= ~std::uint64_t{0x00800000U};
    std::memcpy(bytes.data() + static_cast<std::size_t>(k) * width, &bits, width);  // little-endian, as tests run
  }
  return bytes;
}

/// The element whose bytes are at an address in this machine's order, as out_type, at another.
inline void decode_element(StoredType type, const std::byte* from, ElementType out_type, std::byte* to) {
  const auto number = [&](auto zero) {
    std::memcpy(&zero, from, sizeof zero);
    if (out_type == ElementType::kFloat64) {
      const auto value = static_cast<double>(zero);
      std::memcpy(to, &value, sizeof value);
    } else {
      const auto value = static_cast<float>(zero);
      std::memcpy(to, &value, sizeof value);
    }
  };
  switch (type) {
    case StoredType::kFloat16:
    case StoredType::kBfloat16: std::memcpy(to, from, 2); return;
    case StoredType::kFloat32: std::memcpy(to, from, 4); return;
    case StoredType::kFloat64: number(double{}); return;
    case StoredType::kInt8: number(std::int8_t{}); return;
    case StoredType::kUint8: number(std::uint8_t{}); return;
    case StoredType::kInt16: number(std::int16_t{}); return;
    case StoredType::kUint16: number(std::uint16_t{}); return;
    case StoredType::kInt32: number(std::int32_t{}); return;
    case StoredType::kUint32: number(std::uint32_t{}); return;
    case StoredType::kInt64: number(std::int64_t{}); return;
    case StoredType::kUint64: number(std::uint64_t{}); return;
  }
}

/// (rows, cols) row-major, dense, of an encoded matrix.
inline std::vector<std::byte> decoded(const EncodedView& from, ElementType out_type) {
  const std::int64_t width = stored_size(from.encoding.type), word = element_size(out_type);
  std::vector<std::byte> out(static_cast<std::size_t>(from.rows * from.cols * word));
  for (std::int64_t i = 0; i < from.rows; ++i) {
    for (std::int64_t j = 0; j < from.cols; ++j) {
      const std::int64_t at = from.encoding.by_columns ? j * from.rows + i : i * from.cols + j;
      std::byte element[8];
      std::memcpy(element, static_cast<const std::byte*>(from.data) + at * width, static_cast<std::size_t>(width));
      if (from.encoding.swapped) std::reverse(element, element + width);
      decode_element(from.encoding.type, element, out_type, out.data() + (i * from.cols + j) * word);
    }
  }
  return out;
}

/// Shapes on both sides of the blocks of both twins: tiles of 128 x 32 on the host, 32 x 32 on the device.
inline constexpr std::int64_t kDecodeShapes[][2] = {{0, 0},    {0, 5},    {5, 0},    {1, 1},   {1, 33},   {33, 1},
                                                    {3, 7},    {31, 31},  {32, 32},  {33, 33}, {127, 31}, {128, 32},
                                                    {129, 33}, {257, 65}, {300, 64}, {64, 129}};

}  // namespace tallsketch
