// Small pieces of text for people: sizes and type names. Used by messages, log and report.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/encoding.h"
#include "kernels/views.h"

namespace tallsketch {

/// "1.5 GiB"
std::string bytes_text(std::int64_t bytes);

/// "float32", "int16"
const char* to_word(ElementType type);
const char* to_word(StoredType type);

/// "" for 1, else "s".
constexpr const char* plural(std::int64_t count) { return count == 1 ? "" : "s"; }

}  // namespace tallsketch
