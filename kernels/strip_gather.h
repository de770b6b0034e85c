// The inner loop of the strip engine: what a lane adds to its registers for the entries of a tile's table. Device code
// for compute capability 9.0; included by strip_engine.cu alone.
#pragma once

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/strip_plan.h"
#include "kernels/tma.h"

namespace tallsketch::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A lane reads 16 bytes of a row at a time and holds 64 sums: these columns for 16 slots (FP32) or 8 (FP16, BF16). The
// lanes that cover a row together are a lane set; a table's group of 16 slots is worked on by one lane set, or by two
// with half of the slots each. So tables and partial results look the same whatever A's type.
template <class T>
inline constexpr int kLaneColumns = 16 / sizeof(T);
template <class T>
inline constexpr int kLaneSlots = 64 / kLaneColumns<T>;
template <class T>
using Sums = float[kLaneSlots<T>][kLaneColumns<T>];

/// Addresses of the rows of two neighbouring slots' entries: each is (row * 2 + sign) in 16 bits.
template <int kRowBytes>
__device__ uint2 two_rows(std::uint32_t rows, std::uint32_t two) {
  constexpr int kShift = kRowBytes == 128 ? 7 : kRowBytes == 64 ? 6 : 5;
  static_assert(1 << kShift == kRowBytes);
  constexpr std::uint32_t kMask = 0xfffeU << (kShift - 1);
  return {rows + ((two << (kShift - 1)) & kMask), rows + ((two >> (17 - kShift)) & kMask)};
}

/// +-1; bit 31 of `sign` decides.
__device__ float signed_one(std::uint32_t sign) { return __uint_as_float((sign & 0x80000000U) | 0x3f800000U); }

/// sums += +-row; bit 31 of `sign` decides. A row of FP32
template <class T, int W>
__device__ void add_signed(float (&sums)[4], const uint4& row, std::uint32_t sign, std::uint32_t) {
  const float factor = signed_one(sign);
  sums[0] = fmaf(__uint_as_float(row.x), factor, sums[0]);
  sums[1] = fmaf(__uint_as_float(row.y), factor, sums[1]);
  sums[2] = fmaf(__uint_as_float(row.z), factor, sums[2]);
  sums[3] = fmaf(__uint_as_float(row.w), factor, sums[3]);
}

// Half precision. Widening a lane's eight halves takes eight instructions, as many as adding them. Two products on a
// tensor core do it as well: a row times the unit matrix is the row in FP32, exactly, and each lane gets back the
// columns that it loaded. 16.8 instructions an entry instead of 22.6 (FP32: 10.4 for half as many columns), but a
// longer wait. It pays where rows of 64 bytes meet in the same banks and warps wait anyway. Half floors on an H200, one
// run, by tensor cores / by conversion: n = 512 (W = 64) FP16 1.30 / 1.28, BF16 1.30 / 1.22;
// n = 1024 (W = 32) 1.51 / 1.59, 1.50 / 1.66.
// A NaN or an infinity spreads to the other seven columns of the product, because 0 times it is NaN.
template <int W>
inline constexpr bool kWidenByProduct = W < 64;

/// This lane's share of the unit matrix, operand B (8 x 8) of the product m16n8k8: two neighbouring rows of a column.
template <class T>
__device__ std::uint32_t unit_matrix() {
  constexpr std::uint32_t kOne = std::is_same_v<T, __half> ? 0x3c00U : 0x3f80U;
  const int row = threadIdx.x % 4 * 2, column = threadIdx.x % 32 / 4;
  return row == column ? kOne : row + 1 == column ? kOne << 16 : 0U;
}

/// columns = the two halves in `first` and the two in `second`. All lanes of the warp together.
/// Source: PTX ISA, matrix fragments for mma.m16n8k8; A and the result have the same lane for the same two columns
template <class T>
__device__ void widen(float (&columns)[4], std::uint32_t first, std::uint32_t second, std::uint32_t unit) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
        : "=f"(columns[0]), "=f"(columns[1]), "=f"(columns[2]), "=f"(columns[3])
        : "r"(first), "r"(second), "r"(unit), "f"(0.0F));
  } else {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
        : "=f"(columns[0]), "=f"(columns[1]), "=f"(columns[2]), "=f"(columns[3])
        : "r"(first), "r"(second), "r"(unit), "f"(0.0F));
  }
}

/// The same by conversion; a bfloat16 is the upper half of a float.
template <class T>
__device__ float2 converted(std::uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000U)};
  }
}
template <class T>
__device__ void widen(float (&columns)[4], std::uint32_t first, std::uint32_t second) {
  const float2 two = converted<T>(first), next = converted<T>(second);
  columns[0] = two.x;
  columns[1] = two.y;
  columns[2] = next.x;
  columns[3] = next.y;
}

/// The same for FP16 and BF16. unit  unit_matrix<T>()
template <class T, int W>
__device__ void add_signed(float (&sums)[8], const uint4& row, std::uint32_t sign, std::uint32_t unit) {
  const float factor = signed_one(sign);
  float left[4], right[4];
  if constexpr (kWidenByProduct<W>) {
    widen<T>(left, row.x, row.y, unit);
    widen<T>(right, row.z, row.w, unit);
  } else {
    widen<T>(left, row.x, row.y);
    widen<T>(right, row.z, row.w);
  }
#pragma unroll
  for (int column = 0; column < 4; ++column) {
    sums[column] = fmaf(left[column], factor, sums[column]);
    sums[column + 4] = fmaf(right[column], factor, sums[column + 4]);
  }
}

/// The lane's slots take one entry each. entries: two bytes a slot, in shared memory; rows: the tile, at this lane's
/// columns.
template <class T, int W>
__device__ void gather(Sums<T>& sums, std::uint32_t entries, std::uint32_t rows, std::uint32_t unit) {
#pragma unroll
  for (int slot = 0; slot < kLaneSlots<T>; slot += 8) {
    const uint4 eight = load_16_bytes(entries + slot * 2);
    const std::uint32_t packed[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t two = packed[i];
      const uint2 address = two_rows<W * sizeof(T)>(rows, two);
      const uint4 first = load_16_bytes(address.x);
      const uint4 second = load_16_bytes(address.y);
      add_signed<T, W>(sums[slot + i * 2], first, two << 31, unit);
      add_signed<T, W>(sums[slot + i * 2 + 1], second, two << 15, unit);
    }
  }
}

__device__ std::uint32_t load_u16(std::uint32_t address) {
  std::uint16_t value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address));
  return value;
}

__device__ std::uint32_t load_u32(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}

/// The entries that did not fit the slots, a list a group, sorted by slot: slot * 2^16 + entry. The warp goes through
/// the slots together, because only a slot known at compile time is a register. FP32 alone: its lane sets have 16 slots.
template <int W>
__device__ void gather_tail(Sums<float>& sums, std::uint32_t offsets, std::uint32_t tails, std::uint32_t rows) {
  constexpr std::uint32_t kNone = 0xffffffffU;
  std::uint32_t cursor = tails + 4 * load_u16(offsets);
  const std::uint32_t end = tails + 4 * load_u16(offsets + 2);
  std::uint32_t next = cursor < end ? load_u32(cursor) : kNone;
#pragma unroll
  for (int slot = 0; slot < kSlotsPerGroup; ++slot) {
    while (__any_sync(kNone, next >> 16 == slot)) {
      if (next >> 16 != slot) continue;
      add_signed<float, W>(sums[slot], load_16_bytes(rows + (next >> 1 & 0x7fffU) * (W * 4)), next << 31, 0U);
      cursor += 4;
      next = cursor < end ? load_u32(cursor) : kNone;
    }
  }
}

#endif

}  // namespace tallsketch::cuda
