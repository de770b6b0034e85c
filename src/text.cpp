#include "src/text.h"

#include <fmt/format.h>

namespace tallsketch {

std::string bytes_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, units[unit]);
}

const char* to_word(ElementType type) {
  switch (type) {
    case ElementType::kFloat64: return "float64";
    case ElementType::kFloat32: return "float32";
    case ElementType::kFloat16: return "float16";
    case ElementType::kBfloat16: return "bfloat16";
  }
  return "unknown";
}

const char* to_word(StoredType type) {
  switch (type) {
    case StoredType::kFloat16: return "float16";
    case StoredType::kBfloat16: return "bfloat16";
    case StoredType::kFloat32: return "float32";
    case StoredType::kFloat64: return "float64";
    case StoredType::kInt8: return "int8";
    case StoredType::kUint8: return "uint8";
    case StoredType::kInt16: return "int16";
    case StoredType::kUint16: return "uint16";
    case StoredType::kInt32: return "int32";
    case StoredType::kUint32: return "uint32";
    case StoredType::kInt64: return "int64";
    case StoredType::kUint64: return "uint64";
  }
  return "unknown";
}

}  // namespace tallsketch
