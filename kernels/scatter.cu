// The scatter kernels of paper F: a thread streams down one column (FP32) or one pair of columns (FP16), and every
// element goes to zeta sketch rows by reductions without a result. A is read once; the L2 atomics are what limits.
#include "kernels/launch_shape.h"
#include "kernels/sketch_cuda.h"
#include "kernels/sketch_rule.h"

#include <cuda_fp16.h>

namespace tallsketch::cuda {

namespace {

// Paper F, section III-C: 32 x 16 threads, lanes on consecutive columns; zeta peeled to 8.
constexpr int kLanes = 32;
constexpr int kRowsPerBlock = 16;
constexpr int kPeeled = 8;
constexpr int kThreads = 256;
// Enough blocks to fill the device many times over and even out their ends; rows beyond are strided over.
constexpr std::int64_t kMaxRowBlocks = 8192;

constexpr std::uint32_t kSignBit = 0x80000000U;

__global__ void fill_entries_kernel(SketchSpec spec, std::int64_t first_row, std::int64_t count,
                                    std::uint32_t* __restrict__ entries) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const SketchEntry entry = sketch_entry(spec, first_row + k / spec.zeta, static_cast<std::int32_t>(k % spec.zeta));
    entries[k] = static_cast<std::uint32_t>(entry.sketch_row) | (entry.negative ? kSignBit : 0U);
  }
}

__device__ float with_sign(float value, std::uint32_t entry) {
  return __uint_as_float(__float_as_uint(value) ^ (entry & kSignBit));
}

__device__ void add_signed(float* __restrict__ column, std::int64_t pitch, std::uint32_t entry, float value) {
  atomicAdd(column + static_cast<std::int64_t>(entry & ~kSignBit) * pitch, with_sign(value, entry));
}

__global__ void __launch_bounds__(kLanes* kRowsPerBlock)
    scatter_fp32_kernel(const float* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                        const std::uint32_t* __restrict__ entries, int zeta, float* __restrict__ sketch,
                        std::int64_t sketch_pitch) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kLanes + threadIdx.x;
  if (col >= cols) return;
  float* const column = sketch + col;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsPerBlock;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y; i < rows; i += stride) {
    const float value = __ldcs(slab + i * pitch + col);
    const std::uint32_t* const row_entries = entries + i * zeta;
#pragma unroll
    for (int t = 0; t < kPeeled; ++t) {
      if (t < zeta) add_signed(column, sketch_pitch, row_entries[t], value);
    }
    for (int t = kPeeled; t < zeta; ++t) add_signed(column, sketch_pitch, row_entries[t], value);
  }
}

__global__ void __launch_bounds__(kThreads)
    scatter_fp32_narrow_kernel(const float* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                               const std::uint32_t* __restrict__ entries, int zeta, float* __restrict__ sketch,
                               std::int64_t sketch_pitch) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += stride) {
    for (int t = 0; t < zeta; ++t) {
      const std::uint32_t entry = entries[i * zeta + t];
      for (std::int64_t k = 0; k < cols; ++k) add_signed(sketch + k, sketch_pitch, entry, slab[i * pitch + k]);
    }
  }
}

/// The overload of atomicAdd for half2 compiles to ATOM with a return path; this is the reduction without one.
__device__ void reduce_half2(std::uint32_t* address, std::uint32_t packed) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(address), "r"(packed) : "memory");
}

__device__ void add_signed_pair(std::uint32_t* __restrict__ pair, std::int64_t pair_pitch, std::uint32_t entry,
                                float2 value) {
  const __half2 rounded = __floats2half2_rn(with_sign(value.x, entry), with_sign(value.y, entry));
  std::uint32_t packed;
  memcpy(&packed, &rounded, sizeof packed);
  reduce_half2(pair + static_cast<std::int64_t>(entry & ~kSignBit) * pair_pitch, packed);
}

__global__ void __launch_bounds__(kLanes* kRowsPerBlock)
    scatter_fp16_kernel(const float* __restrict__ slab, std::int64_t rows, std::int64_t pairs, std::int64_t pitch,
                        const std::uint32_t* __restrict__ entries, int zeta, const float2* __restrict__ factor,
                        std::uint32_t* __restrict__ sketch, std::int64_t pair_pitch) {
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.y) * kLanes + threadIdx.x;
  if (pair >= pairs) return;
  const float2 scale = factor[pair];
  std::uint32_t* const column = sketch + pair;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsPerBlock;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y; i < rows; i += stride) {
    float2 value = __ldcs(reinterpret_cast<const float2*>(slab + i * pitch) + pair);
    value.x *= scale.x;
    value.y *= scale.y;
    const std::uint32_t* const row_entries = entries + i * zeta;
#pragma unroll
    for (int t = 0; t < kPeeled; ++t) {
      if (t < zeta) add_signed_pair(column, pair_pitch, row_entries[t], value);
    }
    for (int t = kPeeled; t < zeta; ++t) add_signed_pair(column, pair_pitch, row_entries[t], value);
  }
}

dim3 scatter_grid(std::int64_t rows, std::int64_t lanes) {
  return {static_cast<unsigned>(blocks_for(rows, kRowsPerBlock, kMaxRowBlocks)),
          static_cast<unsigned>(blocks_for(lanes, kLanes, kMaxGridY)), 1};
}

}  // namespace

cudaError_t fill_entries(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows, std::uint32_t* entries,
                         cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  const std::int64_t count = rows * spec.zeta;
  const auto blocks = static_cast<unsigned>(blocks_for(count, kThreads, kMaxGridX));
  fill_entries_kernel<<<blocks, kThreads, 0, stream>>>(spec, first_row, count, entries);
  return cudaGetLastError();
}

cudaError_t scatter_fp32(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                         const SketchView<float>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  scatter_fp32_kernel<<<scatter_grid(slab.rows, slab.cols), dim3(kLanes, kRowsPerBlock), 0, stream>>>(
      static_cast<const float*>(slab.data), slab.rows, slab.cols, slab.pitch, entries, spec.zeta, sketch.data,
      sketch.pitch);
  return cudaGetLastError();
}

cudaError_t scatter_fp32_narrow(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                                const SketchView<float>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(slab.rows, kThreads, kMaxGridX));
  scatter_fp32_narrow_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const float*>(slab.data), slab.rows,
                                                              slab.cols, slab.pitch, entries, spec.zeta, sketch.data,
                                                              sketch.pitch);
  return cudaGetLastError();
}

cudaError_t scatter_fp16(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                         const float* factor, const SketchView<std::uint16_t>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const std::int64_t pairs = (slab.cols + 1) / 2;
  scatter_fp16_kernel<<<scatter_grid(slab.rows, pairs), dim3(kLanes, kRowsPerBlock), 0, stream>>>(
      static_cast<const float*>(slab.data), slab.rows, pairs, slab.pitch, entries, spec.zeta,
      reinterpret_cast<const float2*>(factor), reinterpret_cast<std::uint32_t*>(sketch.data), sketch.pitch / 2);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
