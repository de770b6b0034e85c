// Made-up rows for benchmarks, where they are kept: normal numbers by global row, and b = A 1 + e.
#include "kernels/launch_shape.h"
#include "kernels/made_up_cuda.h"
#include "kernels/normal_pair.h"
#include "kernels/philox.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

/// Numbers 4 group, ..., 4 group + 3 of a row.
__device__ float4 four_normals(std::uint64_t seed, std::int64_t row, DrawPurpose purpose, std::int64_t group) {
  const RandomWords words = random_words(seed, row, purpose, static_cast<std::uint32_t>(group));
  const float2 a = normal_pair(words.word[0], words.word[1]), b = normal_pair(words.word[2], words.word[3]);
  return {a.x, a.y, b.x, b.y};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    normal_rows_kernel(std::uint64_t seed, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                       T* __restrict__ out) {
  const std::int64_t groups = (cols + 3) / 4, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < rows * groups;
       k += stride) {
    const std::int64_t row = k / groups, group = k - row * groups;
    const float4 drawn = four_normals(seed, first_row + row, DrawPurpose::kMatrixEntries, group);
    const float four[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (4 * group + i < cols) out[row * cols + 4 * group + i] = four[i];
    }
  }
}

/// A warp a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    right_hand_sides_kernel(std::uint64_t seed, const T* __restrict__ a, std::int64_t first_row, std::int64_t rows,
                            std::int64_t n, std::int64_t pitch, double noise, std::int64_t r, double* __restrict__ b) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  constexpr int kWarps = kThreads / kWarp;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; i < rows; i += stride) {
    double sum = 0;
    for (std::int64_t j = lane; j < n; j += kWarp) sum += static_cast<double>(a[i * pitch + j]);
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
    for (std::int64_t k = lane; k < r; k += kWarp) {
      const float4 drawn = four_normals(seed, first_row + i, DrawPurpose::kNoise, k / 4);
      const float four[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
      b[i * r + k] = sum + noise * static_cast<double>(four[k % 4]);
    }
  }
}

template <class T>
cudaError_t launch_normal_rows(std::uint64_t seed, std::int64_t first_row, std::int64_t rows, std::int64_t cols, T* out,
                               cudaStream_t stream) {
  if (rows == 0 || cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(rows * ((cols + 3) / 4), kThreads * 4, kMaxGridX));
  normal_rows_kernel<<<blocks, kThreads, 0, stream>>>(seed, first_row, rows, cols, out);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_right_hand_sides(std::uint64_t seed, const SlabView& a, double noise, std::int64_t r, double* b,
                                    cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_for(a.rows, kThreads / kWarp, kMaxGridX));
  right_hand_sides_kernel<<<blocks, kThreads, 0, stream>>>(seed, static_cast<const T*>(a.data), a.first_row, a.rows,
                                                           a.cols, a.pitch, noise, r, b);
  return cudaGetLastError();
}

}  // namespace

cudaError_t fill_normal_rows(std::uint64_t seed, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                             float* out, cudaStream_t stream) {
  return launch_normal_rows(seed, first_row, rows, cols, out, stream);
}
cudaError_t fill_normal_rows(std::uint64_t seed, std::int64_t first_row, std::int64_t rows, std::int64_t cols,
                             double* out, cudaStream_t stream) {
  return launch_normal_rows(seed, first_row, rows, cols, out, stream);
}

cudaError_t fill_right_hand_sides(std::uint64_t seed, const SlabView& a, double noise, std::int64_t r, double* b,
                                  cudaStream_t stream) {
  if (a.rows == 0 || r == 0) return cudaSuccess;
  if (a.type == ElementType::kFloat32) return launch_right_hand_sides<float>(seed, a, noise, r, b, stream);
  if (a.type == ElementType::kFloat64) return launch_right_hand_sides<double>(seed, a, noise, r, b, stream);
  return cudaErrorInvalidValue;
}

}  // namespace tallsketch::cuda
