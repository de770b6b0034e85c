// FlashBlockRow of paper B: gathers sampled rows, no atomics. Its S: kernels/block_row.h.
#include "kernels/flash.h"
#include "kernels/signed_entry.h"

namespace tallsketch::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kColumns = 32;
constexpr int kRowsOfWarp = kBlockRowSize / kWarps;

/// A CTA makes 32 columns of an output block: a warp has every eighth row of it, a lane a column.
/// samples  (128, s) shared
__global__ void __launch_bounds__(kThreads)
    flash_block_row_kernel(BlockRowSpec spec, float scale, const float* __restrict__ a, std::int64_t cols,
                           std::int64_t pitch, float* __restrict__ sketch, std::int64_t sketch_pitch) {
  extern __shared__ std::uint32_t samples[];
  __shared__ float tile[kBlockRowSize * kColumns];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t output_blocks = spec.d / kBlockRowSize;
  const std::int64_t output = blockIdx.x % output_blocks;
  const std::int64_t col = blockIdx.x / output_blocks * kColumns + lane;
  const bool has_column = col < cols;

  float sums[kRowsOfWarp] = {};
  for (std::int32_t l = 0; l < spec.kappa; ++l) {
    const SampledBlock block = sampled_block(spec, output, l);
    for (int k = warp; k < static_cast<int>(block.rows); k += kWarps) {
      tile[k * kColumns + lane] = has_column ? a[(block.first + k) * pitch + col] : 0.0F;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kBlockRowSize * spec.nnz; i += kThreads) {
      samples[i] = sampled_row(spec, output * kBlockRowSize + i / spec.nnz, l, i % spec.nnz, block.rows);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
      const std::uint32_t* const own = samples + (i * kWarps + warp) * spec.nnz;
      for (int u = 0; u < spec.nnz; ++u) {
        sums[i] += with_sign(tile[static_cast<int>(entry_row(own[u])) * kColumns + lane], own[u]);
      }
    }
    __syncthreads();
  }
  if (!has_column) return;
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    sketch[(output * kBlockRowSize + i * kWarps + warp) * sketch_pitch + col] = scale * sums[i];
  }
}

}  // namespace

cudaError_t flash_block_row(const BlockRowSpec& spec, const SlabView& a, const SketchView<float>& sketch,
                            cudaStream_t stream) {
  if (a.cols == 0) return cudaSuccess;
  const std::int64_t blocks = spec.d / kBlockRowSize * divide_up(a.cols, kColumns);
  const auto shared = static_cast<std::size_t>(kBlockRowSize * spec.nnz) * sizeof(std::uint32_t);
  flash_block_row_kernel<<<static_cast<unsigned>(blocks), kThreads, shared, stream>>>(
      spec, block_row_scale(spec), static_cast<const float*>(a.data), a.cols, a.pitch, sketch.data, sketch.pitch);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
