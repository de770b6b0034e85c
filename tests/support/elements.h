// Matrix entries of any element type at an address, for tests that run over all types.
// Called by stored_problem and by tests that write single entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"
#include "kernels/views.h"

namespace tallsketch {

inline constexpr ElementType kElementTypes[] = {ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFloat32,
                                                ElementType::kFloat64};

/// Rounds a value to a type and puts it at an address; and the value there. No alignment is needed.
inline void store_element(ElementType type, double value, std::byte* to) {
  const auto put = [&](auto bits) { std::memcpy(to, &bits, sizeof bits); };
  if (type == ElementType::kFloat16) put(double_to_half(value));
  if (type == ElementType::kBfloat16) put(double_to_bfloat16(value));
  if (type == ElementType::kFloat32) put(static_cast<float>(value));
  if (type == ElementType::kFloat64) put(value);
}

inline double load_element(ElementType type, const std::byte* from) {
  const auto get = [&](auto bits) {
    std::memcpy(&bits, from, sizeof bits);
    return bits;
  };
  if (type == ElementType::kFloat16) return half_to_double(get(std::uint16_t{}));
  if (type == ElementType::kBfloat16) return bfloat16_to_double(get(std::uint16_t{}));
  if (type == ElementType::kFloat32) return static_cast<double>(get(float{}));
  return get(double{});
}

}  // namespace tallsketch
