// FlashSketch, the kernel of paper B: an output tile in shared memory, shared atomics, A read kappa times.
#include "kernels/flash.h"
#include "kernels/signed_entry.h"

namespace tallsketch::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kRowsOfWarp = kFlashTileRows / kWarps;
constexpr int kBlocksPerMultiprocessor = 4;  // 64 registers a thread, the most that does not spill
static_assert(kFlashColumns == 32, "a lane is a column");

/// Where a CTA works: output blocks fastest, so that the kappa readers of an input block run together and meet in L2.
struct FlashPlace {
  std::int64_t output_block, strip, slice;
};
__device__ FlashPlace flash_place(std::int64_t blocks, std::int64_t strips) {
  const std::int64_t place = blockIdx.x;
  return {place % blocks, place / blocks % strips, place / blocks / strips};
}

/// sums          (B_r, 32) shared
/// tile          (128, 32) shared
/// tile_entries  (128, s) shared
/// A warp brings the 16 rows of a tile that it adds, so tiles need no barrier of the whole CTA.
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    flash_fp32_kernel(SketchSpec spec, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                      const float* __restrict__ slab, std::int64_t pitch, const std::uint32_t* __restrict__ entries,
                      std::int64_t slices, float* __restrict__ sketch, std::int64_t sketch_pitch) {
  extern __shared__ float shared[];
  const int block_rows = static_cast<int>(spec.block_rows), nnz = spec.block_nnz;
  float* const sums = shared;
  float* const tile = sums + block_rows * kFlashColumns;
  auto* const tile_entries = reinterpret_cast<std::uint32_t*>(tile + kFlashTileRows * kFlashColumns);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float* const own_tile = tile + warp * kRowsOfWarp * kFlashColumns;
  std::uint32_t* const own_entries = tile_entries + warp * kRowsOfWarp * nnz;
  const auto [output, strip, slice] = flash_place(block_count(spec), (cols + kFlashColumns - 1) / kFlashColumns);
  const std::int64_t col = strip * kFlashColumns + lane;
  const bool has_column = col < cols;
  const auto first_bucket = static_cast<std::uint32_t>(output * spec.block_rows);

  for (int i = static_cast<int>(threadIdx.x); i < block_rows * kFlashColumns; i += kThreads) sums[i] = 0;
  __syncthreads();
  for (std::int32_t l = 0; l < spec.kappa; ++l) {
    const BlockRows block = rows_of_input_block(spec, input_block(spec, output, l), first_row, rows);
    const std::int64_t begin = block.count * slice / slices, end = block.count * (slice + 1) / slices;
    const std::int64_t row_step = block.stride * pitch;
    for (std::int64_t step = begin + warp * kRowsOfWarp; step < end; step += kFlashTileRows) {
      const auto count = static_cast<int>(end - step < kRowsOfWarp ? end - step : kRowsOfWarp);
      const std::int64_t first = block.first + step * block.stride;
      if (has_column) {
        const float* from = slab + first * pitch + col;
#pragma unroll 8
        for (int k = 0; k < count; ++k, from += row_step) own_tile[k * kFlashColumns + lane] = *from;
      }
      for (int i = lane; i < count * nnz; i += 32) {
        own_entries[i] = entries[(first + i / nnz * block.stride) * spec.zeta + l * nnz + i % nnz];
      }
      __syncwarp();
      for (int k = 0; k < count && has_column; ++k) {
        const float value = own_tile[k * kFlashColumns + lane];
        for (int u = 0; u < nnz; ++u) {
          const std::uint32_t entry = own_entries[k * nnz + u];
          const int bucket = static_cast<int>(entry_row(entry) - first_bucket);
          atomicAdd(sums + bucket * kFlashColumns + lane, with_sign(value, entry));
        }
      }
      __syncwarp();  // the entries may be overwritten
    }
  }
  __syncthreads();
  if (!has_column) return;
  for (int bucket = warp; bucket < block_rows; bucket += kWarps) {
    float* const target = sketch + (output * spec.block_rows + bucket) * sketch_pitch + col;
    const float sum = sums[bucket * kFlashColumns + lane];
    if (slices == 1) {
      *target += sum;
    } else {
      atomicAdd(target, sum);
    }
  }
}

}  // namespace

cudaError_t flash_fp32(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                       const SketchView<float>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  int device = 0, multiprocessors = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  if (const cudaError_t status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
      status != cudaSuccess) {
    return status;
  }
  const std::int64_t shared = flash_shared_bytes(spec);
  if (const cudaError_t status = cudaFuncSetAttribute(flash_fp32_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                      static_cast<int>(shared));
      status != cudaSuccess) {
    return status;
  }
  const std::int64_t slices = flash_slices(spec, slab.cols, multiprocessors);
  const std::int64_t blocks = block_count(spec) * divide_up(slab.cols, kFlashColumns) * slices;
  flash_fp32_kernel<<<static_cast<unsigned>(blocks), kThreads, static_cast<std::size_t>(shared), stream>>>(
      spec, slab.first_row, slab.rows, slab.cols, static_cast<const float*>(slab.data), slab.pitch, entries, slices,
      sketch.data, sketch.pitch);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
