// What happens to a slab or a sketch around the scatter: column statistics, finiteness, the scaled transpose for the
// QR, and the read-only pass that benchmarks divide by.
#include "kernels/launch_shape.h"
#include "kernels/philox.h"
#include "kernels/sketch_cuda.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = 8;
constexpr std::int64_t kStatisticsBlocks = 256;  // row blocks; partial results meet in atomics, one a column and block

/// Magnitudes are not negative, and such floats are ordered like their bits.
__device__ void atomic_max(float* address, float value) {
  atomicMax(reinterpret_cast<int*>(address), __float_as_int(value));
}

__global__ void __launch_bounds__(kTile* kTileRows)
    column_statistics_kernel(const float* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                             float* __restrict__ column_max, double* __restrict__ column_squares) {
  __shared__ float shared_max[kTileRows][kTile];
  __shared__ double shared_squares[kTileRows][kTile];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kTile + threadIdx.x;
  float largest = 0;
  double squares = 0;
  if (col < cols) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kTileRows;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kTileRows + threadIdx.y; i < rows; i += stride) {
      const float value = slab[i * pitch + col];
      largest = fmaxf(largest, fabsf(value));
      squares += static_cast<double>(value) * value;
    }
  }
  shared_max[threadIdx.y][threadIdx.x] = largest;
  shared_squares[threadIdx.y][threadIdx.x] = squares;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int k = 1; k < kTileRows; ++k) {
    largest = fmaxf(largest, shared_max[k][threadIdx.x]);
    squares += shared_squares[k][threadIdx.x];
  }
  atomic_max(column_max + col, largest);
  atomicAdd(column_squares + col, squares);
}

__global__ void count_non_finite_kernel(const float* __restrict__ sketch, std::int64_t rows, std::int64_t cols,
                                        std::int64_t pitch, unsigned long long* __restrict__ count) {
  unsigned found = 0;
  const std::int64_t total = rows * cols;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < total; k += stride) {
    found += isfinite(sketch[k / cols * pitch + k % cols]) ? 0 : 1;
  }
  if (found != 0) atomicAdd(count, static_cast<unsigned long long>(found));
}

__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_scaled_kernel(const float* __restrict__ sketch, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                            const double* __restrict__ factor, float* __restrict__ out) {
  __shared__ float tile[kTile][kTile + 1];
  const std::int64_t i0 = static_cast<std::int64_t>(blockIdx.x) * kTile,
                     j0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  for (int k = threadIdx.y; k < kTile; k += kTileRows) {
    const std::int64_t i = i0 + k, j = j0 + threadIdx.x;
    if (i < rows && j < cols) tile[k][threadIdx.x] = __double2float_rn(sketch[i * pitch + j] * factor[j]);
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kTileRows) {
    const std::int64_t i = i0 + threadIdx.x, j = j0 + k;
    if (i < rows && j < cols) out[j * rows + i] = tile[threadIdx.x][k];
  }
}

__global__ void fill_uniform_kernel(float* __restrict__ data, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const std::uint32_t word = random_words(1, k, DrawPurpose::kMatrixEntries, 0).word[0];
    data[k] = static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31F;
  }
}

__device__ float sum4(float4 v) { return (v.x + v.y) + (v.z + v.w); }

__global__ void __launch_bounds__(kThreads)
    read_pass_kernel(const float4* __restrict__ data, std::int64_t count, float* __restrict__ sink) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum = 0;
  for (; i + 3 * stride < count; i += 4 * stride) {  // four independent loads in flight
    const float4 a = __ldcs(data + i), b = __ldcs(data + i + stride), c = __ldcs(data + i + 2 * stride),
                 d = __ldcs(data + i + 3 * stride);
    sum += (sum4(a) + sum4(b)) + (sum4(c) + sum4(d));
  }
  for (; i < count; i += stride) sum += sum4(__ldcs(data + i));
  if (sum == 12345.678F) *sink = sum;
}

}  // namespace

cudaError_t column_statistics(const SlabView& slab, float* column_max, double* column_squares, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(blocks_for(slab.rows, kTileRows, kStatisticsBlocks)),
                  static_cast<unsigned>(blocks_for(slab.cols, kTile, kMaxGridY)));
  column_statistics_kernel<<<grid, dim3(kTile, kTileRows), 0, stream>>>(
      static_cast<const float*>(slab.data), slab.rows, slab.cols, slab.pitch, column_max, column_squares);
  return cudaGetLastError();
}

cudaError_t count_non_finite(const SketchView<float>& sketch, unsigned long long* count, cudaStream_t stream) {
  if (sketch.rows == 0 || sketch.cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(sketch.rows * sketch.cols, kThreads * 8, kMaxGridX));
  count_non_finite_kernel<<<blocks, kThreads, 0, stream>>>(sketch.data, sketch.rows, sketch.cols, sketch.pitch, count);
  return cudaGetLastError();
}

cudaError_t transpose_scaled(const SketchView<float>& sketch, const double* factor, float* out, cudaStream_t stream) {
  if (sketch.rows == 0 || sketch.cols == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(blocks_for(sketch.rows, kTile, kMaxGridX)),
                  static_cast<unsigned>(blocks_for(sketch.cols, kTile, kMaxGridY)));
  transpose_scaled_kernel<<<grid, dim3(kTile, kTileRows), 0, stream>>>(sketch.data, sketch.rows, sketch.cols,
                                                                       sketch.pitch, factor, out);
  return cudaGetLastError();
}

cudaError_t fill_uniform(float* data, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(count, kThreads * 16, kMaxGridX));
  fill_uniform_kernel<<<blocks, kThreads, 0, stream>>>(data, count);
  return cudaGetLastError();
}

cudaError_t read_pass(const float* data, std::int64_t count, float* sink, cudaStream_t stream) {
  // 16 blocks an SM of an H200; more or fewer change nothing (probe).
  constexpr unsigned kBlocks = 132 * 16;
  read_pass_kernel<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<const float4*>(data), count / 4, sink);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
