// The scatter kernel in FP64: what paper F's FP32 kernel does (scatter.cu), for any stored type of A and for b.
// For sketches that must not round; an element costs zeta reductions of 8 bytes in L2. Called by src/cuda_backend.cpp.
#include "kernels/launch_shape.h"
#include "kernels/signed_entry.h"
#include "kernels/sketch_cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tallsketch::cuda {

namespace {

constexpr int kLanes = 32;
constexpr int kRowsPerBlock = 16;
constexpr int kThreads = 256;
// Enough blocks to fill the device many times over and even out their ends; rows beyond are strided over.
constexpr std::int64_t kMaxRowBlocks = 8192;
constexpr std::int64_t kFewColumns = 8;  // below that most lanes of a row's warp would have none

__device__ double as_double(float value) { return value; }
__device__ double as_double(double value) { return value; }
__device__ double as_double(__half value) { return __half2float(value); }
__device__ double as_double(__nv_bfloat16 value) { return __bfloat162float(value); }

/// Without a result this is RED.E.ADD.F64, a reduction that nothing waits for.
__device__ void add_signed(double* __restrict__ column, std::int64_t pitch, std::uint32_t entry, double value) {
  atomicAdd(column + static_cast<std::int64_t>(entry_row(entry)) * pitch, with_sign(value, entry));
}

/// A lane a column, rows strided over.
template <class T>
__global__ void __launch_bounds__(kLanes* kRowsPerBlock)
    scatter_fp64_kernel(const T* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                        const std::uint32_t* __restrict__ entries, int zeta, double* __restrict__ sketch,
                        std::int64_t sketch_pitch) {
  const std::int64_t lanes = static_cast<std::int64_t>(gridDim.y) * kLanes;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsPerBlock;
  for (std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kLanes + threadIdx.x; col < cols; col += lanes) {
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y; i < rows; i += stride) {
      const double value = as_double(slab[i * pitch + col]);
      for (int t = 0; t < zeta; ++t) add_signed(sketch + col, sketch_pitch, entries[i * zeta + t], value);
    }
  }
}

/// A thread a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_fp64_narrow_kernel(const T* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                               const std::uint32_t* __restrict__ entries, int zeta, double* __restrict__ sketch,
                               std::int64_t sketch_pitch) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += stride) {
    for (int t = 0; t < zeta; ++t) {
      const std::uint32_t entry = entries[i * zeta + t];
      for (std::int64_t k = 0; k < cols; ++k)
        add_signed(sketch + k, sketch_pitch, entry, as_double(slab[i * pitch + k]));
    }
  }
}

template <class T>
cudaError_t scatter(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                    const SketchView<double>& sketch, cudaStream_t stream) {
  const auto* data = static_cast<const T*>(slab.data);
  if (slab.cols < kFewColumns) {
    const auto blocks = static_cast<unsigned>(blocks_for(slab.rows, kThreads, kMaxGridX));
    scatter_fp64_narrow_kernel<<<blocks, kThreads, 0, stream>>>(data, slab.rows, slab.cols, slab.pitch, entries,
                                                                spec.zeta, sketch.data, sketch.pitch);
  } else {
    const dim3 grid(static_cast<unsigned>(blocks_for(slab.rows, kRowsPerBlock, kMaxRowBlocks)),
                    static_cast<unsigned>(blocks_for(slab.cols, kLanes, kMaxGridY)));
    scatter_fp64_kernel<<<grid, dim3(kLanes, kRowsPerBlock), 0, stream>>>(
        data, slab.rows, slab.cols, slab.pitch, entries, spec.zeta, sketch.data, sketch.pitch);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t scatter_fp64(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                         const SketchView<double>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  switch (slab.type) {
    case ElementType::kFloat32: return scatter<float>(spec, slab, entries, sketch, stream);
    case ElementType::kFloat64: return scatter<double>(spec, slab, entries, sketch, stream);
    case ElementType::kFloat16: return scatter<__half>(spec, slab, entries, sketch, stream);
    case ElementType::kBfloat16: return scatter<__nv_bfloat16>(spec, slab, entries, sketch, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tallsketch::cuda
