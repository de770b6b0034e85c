// The right-hand sides of one launch of a refinement kernel: some columns of b, of either type. Included by
// normal_product.cu and normal_product_simple.cu.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/views.h"

namespace tallsketch::cuda {

struct RightHandSides {
  const std::byte* data;  // null: zeros
  std::int64_t row_bytes;
  bool is_double;
  std::int32_t count;  // those that exist; the launch's others are zeros

  __device__ const std::byte* address(std::int64_t row, std::int32_t column) const {
    return data + row * row_bytes + column * (is_double ? 8 : 4);
  }
  __device__ double load(const std::byte* address) const {
    if (is_double) return *reinterpret_cast<const double*>(address);
    return static_cast<double>(*reinterpret_cast<const float*>(address));
  }
};

/// Right-hand sides first, ..., of b, as many as a launch takes.
inline RightHandSides rhs_from(const SlabView& b, std::int64_t first, int most) {
  const auto* data = static_cast<const std::byte*>(b.data);
  if (data != nullptr) data += first * element_size(b.type);
  return {data, b.pitch * element_size(b.type), b.type == ElementType::kFloat64,
          static_cast<std::int32_t>(std::min<std::int64_t>(most, b.cols - first))};
}

}  // namespace tallsketch::cuda
