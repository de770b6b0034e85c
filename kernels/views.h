// Non-owning views of row-major data, host or device. Used by every kernel and both backends.
#pragma once

#include <cstdint>

namespace tallsketch {

enum class ElementType : std::int32_t { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBfloat16 = 3 };

constexpr std::int64_t element_size(ElementType type) {
  return type == ElementType::kFloat64 ? 8 : type == ElementType::kFloat32 ? 4 : 2;
}

/// The ElementType of float and double.
template <class T>
inline constexpr ElementType kElementType = ElementType::kFloat32;
template <>
inline constexpr ElementType kElementType<double> = ElementType::kFloat64;

/// Consecutive global rows of a matrix: element (k, j) at data[k * pitch + j] is row first_row + k, column j.
struct SlabView {
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t pitch = 0;  // elements from row to row, >= cols
  ElementType type = ElementType::kFloat32;
  std::int64_t first_row = 0;  // global
};

/// Rows [begin, begin + rows) of a slab, counted from its first.
inline SlabView rows_of(const SlabView& slab, std::int64_t begin, std::int64_t rows) {
  SlabView part = slab;
  if (slab.data != nullptr)
    part.data = static_cast<const char*>(slab.data) + begin * slab.pitch * element_size(slab.type);
  part.rows = rows;
  part.first_row = slab.first_row + begin;
  return part;
}

/// Accumulator of a sketch, or of some of its columns: (d, cols) row-major.
template <class T>
struct SketchView {
  T* data = nullptr;
  std::int64_t rows = 0;  // d
  std::int64_t cols = 0;
  std::int64_t pitch = 0;
};

}  // namespace tallsketch
