// S in compressed sparse rows: entries sorted by sketch row (CUB), offsets found by bisection.
#include <algorithm>
#include <bit>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/baselines.h"
#include "kernels/launch_shape.h"
#include "kernels/signed_entry.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;

__global__ void number_columns_kernel(std::int32_t zeta, std::int64_t nnz, std::int32_t* __restrict__ columns) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < nnz; k += stride) {
    columns[k] = static_cast<std::int32_t>(k / zeta);
  }
}

/// offsets[i] = number of entries below sketch row i, 0 <= i <= d.
__global__ void find_offsets_kernel(const std::uint32_t* __restrict__ sorted, std::int64_t nnz, std::int64_t d,
                                    std::int32_t* __restrict__ offsets) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i > d) return;
  std::int64_t low = 0, high = nnz;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (entry_row(sorted[middle]) < i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  offsets[i] = static_cast<std::int32_t>(low);
}

__global__ void sign_values_kernel(const std::uint32_t* __restrict__ sorted, std::int64_t nnz,
                                   float* __restrict__ values) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < nnz; k += stride) {
    values[k] = with_sign(1.0F, sorted[k]);
  }
}

/// Stable, by the bits of the sketch row alone: the sign in bit 31 travels along, and columns stay in order.
cudaError_t sort_by_sketch_row(const SketchSpec& spec, std::int64_t nnz, const CsrBuffers& buffers, void* scratch,
                               std::size_t& bytes, cudaStream_t stream) {
  const int row_bits = std::max<int>(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(spec.d - 1))));
  return cub::DeviceRadixSort::SortPairs(scratch, bytes, buffers.entries, buffers.sorted_entries,
                                         buffers.unsorted_columns, buffers.columns, nnz, 0, row_bits, stream);
}

}  // namespace

cudaError_t csr_scratch_bytes(const SketchSpec& spec, std::int64_t rows, std::size_t* bytes) {
  *bytes = 0;
  return sort_by_sketch_row(spec, rows * spec.zeta, {}, nullptr, *bytes, nullptr);
}

cudaError_t build_csr(const SketchSpec& spec, std::int64_t rows, const CsrBuffers& buffers, cudaStream_t stream) {
  const std::int64_t nnz = rows * spec.zeta;
  if (nnz == 0) return cudaMemsetAsync(buffers.offsets, 0, static_cast<std::size_t>(spec.d + 1) * 4, stream);
  const auto blocks = static_cast<unsigned>(blocks_for(nnz, kThreads, kMaxGridX));
  number_columns_kernel<<<blocks, kThreads, 0, stream>>>(spec.zeta, nnz, buffers.unsorted_columns);
  std::size_t bytes = buffers.scratch_bytes;
  if (const cudaError_t status = sort_by_sketch_row(spec, nnz, buffers, buffers.scratch, bytes, stream);
      status != cudaSuccess) {
    return status;
  }
  const auto row_blocks = static_cast<unsigned>(blocks_for(spec.d + 1, kThreads, kMaxGridX));
  find_offsets_kernel<<<row_blocks, kThreads, 0, stream>>>(buffers.sorted_entries, nnz, spec.d, buffers.offsets);
  sign_values_kernel<<<blocks, kThreads, 0, stream>>>(buffers.sorted_entries, nnz, buffers.values);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
