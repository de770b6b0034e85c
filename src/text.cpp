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

}  // namespace tallsketch
