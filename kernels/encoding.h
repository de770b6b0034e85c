// Encoding: how a file stores the elements of A, before they become one of the four element types that kernels compute with.
// Used by row sources (which deliver encoded rows), decode_host.h and decode_cuda.h (which decode them) and both backends.
#pragma once

#include <cstdint>

#include "kernels/views.h"

namespace tallsketch {

enum class StoredType : std::int32_t {
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kInt8,
  kUint8,  // booleans too: 0 or 1
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
};

/// Bytes of an element.
constexpr std::int64_t stored_size(StoredType type) {
  switch (type) {
    case StoredType::kInt8:
    case StoredType::kUint8: return 1;
    case StoredType::kFloat16:
    case StoredType::kBfloat16:
    case StoredType::kInt16:
    case StoredType::kUint16: return 2;
    case StoredType::kFloat32:
    case StoredType::kInt32:
    case StoredType::kUint32: return 4;
    case StoredType::kFloat64:
    case StoredType::kInt64:
    case StoredType::kUint64: return 8;
  }
  return 0;
}

/// The element type that holds every value of a stored one; of 64-bit integers those up to 2^53, larger ones are rounded.
constexpr ElementType element_type_of(StoredType type) {
  switch (type) {
    case StoredType::kFloat16: return ElementType::kFloat16;
    case StoredType::kBfloat16: return ElementType::kBfloat16;
    case StoredType::kFloat32:
    case StoredType::kInt8:
    case StoredType::kUint8:
    case StoredType::kInt16:
    case StoredType::kUint16: return ElementType::kFloat32;
    case StoredType::kFloat64:
    case StoredType::kInt32:
    case StoredType::kUint32:
    case StoredType::kInt64:
    case StoredType::kUint64: return ElementType::kFloat64;
  }
  return ElementType::kFloat64;
}

constexpr StoredType stored_type_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat16: return StoredType::kFloat16;
    case ElementType::kBfloat16: return StoredType::kBfloat16;
    case ElementType::kFloat32: return StoredType::kFloat32;
    case ElementType::kFloat64: return StoredType::kFloat64;
  }
  return StoredType::kFloat64;
}

struct Encoding {
  StoredType type = StoredType::kFloat32;
  bool swapped = false;     // bytes in the order that is not this machine's
  bool by_columns = false;  // (n, rows) instead of (rows, n)
  bool operator==(const Encoding&) const = default;
};

/// Nothing has to be done to such rows: they are what kernels compute with.
constexpr Encoding plain_encoding(ElementType type) { return {stored_type_of(type), false, false}; }

/// Encoded elements of consecutive rows, dense: element (i, j) at i * cols + j, or by columns at j * rows + i.
struct EncodedView {
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Encoding encoding;
};

}  // namespace tallsketch
