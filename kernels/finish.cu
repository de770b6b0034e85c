// What happens to a slab or a sketch around the sketching: column statistics, finiteness, the QR's scaled transpose.
#include "kernels/launch_shape.h"
#include "kernels/sketch_cuda.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = 8;
constexpr std::int64_t kStatisticsBlocks = 256;  // row blocks; partial results meet in atomics, one a column and block

/// Magnitudes are not negative, and such numbers are ordered like their bits.
__device__ void atomic_max(float* address, float value) {
  atomicMax(reinterpret_cast<int*>(address), __float_as_int(value));
}
__device__ void atomic_max(double* address, double value) {
  atomicMax(reinterpret_cast<long long*>(address), __double_as_longlong(value));
}

template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    column_statistics_kernel(const T* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                             T* __restrict__ column_max, double* __restrict__ column_squares) {
  __shared__ T shared_max[kTileRows][kTile];
  __shared__ double shared_squares[kTileRows][kTile];
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kTile + threadIdx.x;
  T largest = 0;
  double squares = 0;
  if (col < cols) {
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kTileRows;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kTileRows + threadIdx.y; i < rows; i += stride) {
      const T value = slab[i * pitch + col];
      largest = fmax(largest, fabs(value));
      squares += static_cast<double>(value) * value;
    }
  }
  shared_max[threadIdx.y][threadIdx.x] = largest;
  shared_squares[threadIdx.y][threadIdx.x] = squares;
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int k = 1; k < kTileRows; ++k) {
    largest = fmax(largest, shared_max[k][threadIdx.x]);
    squares += shared_squares[k][threadIdx.x];
  }
  atomic_max(column_max + col, largest);
  atomicAdd(column_squares + col, squares);
}

template <class T>
__global__ void count_non_finite_kernel(const T* __restrict__ sketch, std::int64_t rows, std::int64_t cols,
                                        std::int64_t pitch, unsigned long long* __restrict__ count) {
  unsigned found = 0;
  const std::int64_t total = rows * cols;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < total; k += stride) {
    found += isfinite(sketch[k / cols * pitch + k % cols]) ? 0 : 1;
  }
  if (found != 0) atomicAdd(count, static_cast<unsigned long long>(found));
}

template <class T>
__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_scaled_kernel(const T* __restrict__ sketch, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                            const double* __restrict__ factor, CheckRows unused, T* __restrict__ out) {
  __shared__ T tile[kTile][kTile + 1];
  const std::int64_t i0 = static_cast<std::int64_t>(blockIdx.x) * kTile,
                     j0 = static_cast<std::int64_t>(blockIdx.y) * kTile;
  for (int k = threadIdx.y; k < kTile; k += kTileRows) {
    const std::int64_t i = i0 + k, j = j0 + threadIdx.x;
    if (i < rows && j < cols)
      tile[k][threadIdx.x] = unused.holds(i) ? T{0} : static_cast<T>(sketch[i * pitch + j] * factor[j]);
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kTileRows) {
    const std::int64_t i = i0 + threadIdx.x, j = j0 + k;
    if (i < rows && j < cols) out[j * rows + i] = tile[threadIdx.x][k];
  }
}

template <class T>
cudaError_t launch_column_statistics(const SlabView& slab, T* column_max, double* column_squares, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(blocks_for(slab.rows, kTileRows, kStatisticsBlocks)),
                  static_cast<unsigned>(blocks_for(slab.cols, kTile, kMaxGridY)));
  column_statistics_kernel<<<grid, dim3(kTile, kTileRows), 0, stream>>>(
      static_cast<const T*>(slab.data), slab.rows, slab.cols, slab.pitch, column_max, column_squares);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_count_non_finite(const SketchView<T>& sketch, unsigned long long* count, cudaStream_t stream) {
  if (sketch.rows == 0 || sketch.cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(sketch.rows * sketch.cols, kThreads * 8, kMaxGridX));
  count_non_finite_kernel<<<blocks, kThreads, 0, stream>>>(sketch.data, sketch.rows, sketch.cols, sketch.pitch, count);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_transpose_scaled(const SketchView<T>& sketch, const double* factor, const CheckRows& unused, T* out,
                                    cudaStream_t stream) {
  if (sketch.rows == 0 || sketch.cols == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(blocks_for(sketch.rows, kTile, kMaxGridX)),
                  static_cast<unsigned>(blocks_for(sketch.cols, kTile, kMaxGridY)));
  transpose_scaled_kernel<<<grid, dim3(kTile, kTileRows), 0, stream>>>(sketch.data, sketch.rows, sketch.cols,
                                                                       sketch.pitch, factor, unused, out);
  return cudaGetLastError();
}

}  // namespace

cudaError_t column_statistics(const SlabView& slab, float* column_max, double* column_squares, cudaStream_t stream) {
  return launch_column_statistics(slab, column_max, column_squares, stream);
}
cudaError_t column_statistics(const SlabView& slab, double* column_max, double* column_squares, cudaStream_t stream) {
  return launch_column_statistics(slab, column_max, column_squares, stream);
}

cudaError_t count_non_finite(const SketchView<float>& sketch, unsigned long long* count, cudaStream_t stream) {
  return launch_count_non_finite(sketch, count, stream);
}
cudaError_t count_non_finite(const SketchView<double>& sketch, unsigned long long* count, cudaStream_t stream) {
  return launch_count_non_finite(sketch, count, stream);
}

cudaError_t transpose_scaled(const SketchView<float>& sketch, const double* factor, const CheckRows& unused, float* out,
                             cudaStream_t stream) {
  return launch_transpose_scaled(sketch, factor, unused, out, stream);
}
cudaError_t transpose_scaled(const SketchView<double>& sketch, const double* factor, const CheckRows& unused,
                             double* out, cudaStream_t stream) {
  return launch_transpose_scaled(sketch, factor, unused, out, stream);
}

}  // namespace tallsketch::cuda
