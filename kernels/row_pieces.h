// What the two fast kernels of the refinement pass share: elements on their way from shared memory into FP64 registers, and
// sums over lanes. Device only; included by normal_product.cu and normal_product_tensor.cu.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tallsketch::cuda {

// Those kernels are compiled for compute capability 9.0 and above only.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

inline constexpr unsigned kWarp = 0xffffffffU;

/// The first bytes of a word, zeros for the rest; bytes may lie outside [0, 4].
__device__ inline std::uint32_t first_bytes(std::uint32_t word, std::int32_t bytes) {
  return bytes >= 4 ? word : bytes <= 0 ? 0U : word & ((1U << (8 * bytes)) - 1);
}

template <class T>
__device__ void widen(double* values, const uint4& words) {
  const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if constexpr (std::is_same_v<T, double>) {
      if (k % 2 == 0) values[k / 2] = __hiloint2double(static_cast<int>(word[k + 1]), static_cast<int>(word[k]));
    } else if constexpr (std::is_same_v<T, float>) {
      values[k] = static_cast<double>(__uint_as_float(word[k]));
    } else if constexpr (std::is_same_v<T, __half>) {
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&word[k]));
      values[2 * k] = static_cast<double>(two.x);
      values[2 * k + 1] = static_cast<double>(two.y);
    } else {  // a bfloat16 is the upper half of a float
      values[2 * k] = static_cast<double>(__uint_as_float(word[k] << 16));
      values[2 * k + 1] = static_cast<double>(__uint_as_float(word[k] & 0xffff0000U));
    }
  }
}

/// Zeros for what stands behind the row in a piece: it may be a NaN.
__device__ inline void clear_behind(uint4& words, std::int32_t kept_bytes) {
  words = {first_bytes(words.x, kept_bytes), first_bytes(words.y, kept_bytes - 4), first_bytes(words.z, kept_bytes - 8),
           first_bytes(words.w, kept_bytes - 12)};
}

/// Lanes with bits 1, 2, 4 ... up to `end` different add up; equal bits in all of them.
__device__ inline double sum_over_lanes(double sum, int first_bit, int end) {
  for (int bit = first_bit; bit < end; bit *= 2) sum += __shfl_xor_sync(kWarp, sum, bit);
  return sum;
}

#endif

}  // namespace tallsketch::cuda
