// ProblemShape: sizes and stored type of [A | b]. Used by sources, plan, backends and report.
#pragma once

#include <cstdint>

#include "kernels/views.h"

namespace tallsketch {

/// Type in which b is stored beside an A of a_type, in files of `generate`; synthetic problems are rounded to it, too.
constexpr ElementType stored_b_type(ElementType a_type) {
  return a_type == ElementType::kFloat64 ? ElementType::kFloat64 : ElementType::kFloat32;
}

struct ProblemShape {
  std::int64_t m = 0;  // rows
  std::int64_t n = 0;  // columns of A
  std::int64_t r = 1;  // columns of b
  ElementType a_type = ElementType::kFloat32;

  /// Bytes of a row of A as stored, and of a row as a source delivers it (A as stored, b in FP64).
  std::int64_t a_row_bytes() const { return n * element_size(a_type); }
  std::int64_t row_bytes() const { return a_row_bytes() + r * element_size(ElementType::kFloat64); }
};

}  // namespace tallsketch
