// Products of a few columns, and the elementwise work around a Gram matrix.
#include "kernels/gram_cuda.h"
#include "kernels/launch_shape.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 256;  // of one pair of columns; partial results of each are added up in order

/// Sum over the threads of a block, in thread 0.
__device__ double block_sum(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

/// Pair (i, j), i <= j, of a block row's number: pairs in the order (0, 0), (0, 1), (1, 1), (0, 2), ...
__device__ void pair_of(int number, int* i, int* j) {
  int column = 0;
  while ((column + 1) * (column + 2) / 2 <= number) ++column;
  *j = column;
  *i = number - column * (column + 1) / 2;
}

/// Block (x, pair): scratch[pair * kBlocks + x].
__global__ void __launch_bounds__(kThreads) pair_partials_kernel(const double* __restrict__ in, std::int64_t rows,
                                                                 std::int64_t pitch, double* __restrict__ scratch) {
  int i = 0, j = 0;
  pair_of(static_cast<int>(blockIdx.y), &i, &j);
  double sum = 0;
  const std::int64_t stride = static_cast<std::int64_t>(kBlocks) * kThreads;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; row < rows; row += stride) {
    sum += in[row * pitch + i] * in[row * pitch + j];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) scratch[blockIdx.y * kBlocks + blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    pair_sums_kernel(const double* __restrict__ scratch, int cols, double* __restrict__ products) {
  static_assert(kBlocks <= kThreads);
  int i = 0, j = 0;
  pair_of(static_cast<int>(blockIdx.x), &i, &j);
  const double sum = block_sum(threadIdx.x < kBlocks ? scratch[blockIdx.x * kBlocks + threadIdx.x] : 0.0);
  if (threadIdx.x != 0) return;
  products[j * cols + i] += sum;
  if (i != j) products[i * cols + j] += sum;
}

__global__ void assemble_kernel(GramParts parts, std::int64_t n, std::int64_t r, double* __restrict__ gram) {
  const std::int64_t cols = n + r, stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < cols * cols;
       k += stride) {
    const std::int64_t j = k / cols, i = k - j * cols;
    double value = 0;
    if (j < n) {
      if (i <= j) value = parts.of_a[j * parts.of_a_pitch + i];
    } else if (i < n) {
      value = parts.of_ab[i * r + (j - n)];
    } else if (i <= j) {
      value = parts.of_b[(j - n) * r + (i - n)];
    }
    gram[k] = value;
  }
}

__global__ void diagonal_kernel(const double* __restrict__ gram, std::int64_t cols, std::int64_t pitch,
                                double* __restrict__ diagonal) {
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j < cols) diagonal[j] = gram[j * (pitch + 1)];
}

/// No __restrict__: gram and out may be the same memory.
__global__ void scale_kernel(const double* gram, std::int64_t cols, std::int64_t pitch, double factor,
                             const int* __restrict__ exponent, const double* __restrict__ added, double* out,
                             std::int64_t out_pitch) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < cols * cols;
       k += stride) {
    const std::int64_t i = k / cols, j = k - i * cols;
    if (i > j) continue;
    const double value = factor * scalbn(gram[j * pitch + i], exponent[i] + exponent[j]);
    out[i * out_pitch + j] = i == j ? value + added[j] : value;
  }
}

unsigned blocks_of_elements(std::int64_t count) {
  return static_cast<unsigned>(blocks_for(count, kThreads, std::int64_t{1} << 16));
}

int pairs_of(std::int64_t cols) { return static_cast<int>(cols * (cols + 1) / 2); }

}  // namespace

std::int64_t column_product_doubles(std::int64_t cols) { return static_cast<std::int64_t>(pairs_of(cols)) * kBlocks; }

cudaError_t column_products(const SlabView& in, double* scratch, double* products, cudaStream_t stream) {
  if (in.rows == 0 || in.cols == 0) return cudaSuccess;
  if (in.cols > kMostProductColumns || in.type != ElementType::kFloat64) return cudaErrorInvalidValue;
  const auto pairs = static_cast<unsigned>(pairs_of(in.cols));
  pair_partials_kernel<<<dim3(kBlocks, pairs), kThreads, 0, stream>>>(static_cast<const double*>(in.data), in.rows,
                                                                      in.pitch, scratch);
  pair_sums_kernel<<<pairs, kThreads, 0, stream>>>(scratch, static_cast<int>(in.cols), products);
  return cudaGetLastError();
}

cudaError_t assemble_gram(const GramParts& parts, std::int64_t n, std::int64_t r, double* gram, cudaStream_t stream) {
  assemble_kernel<<<blocks_of_elements((n + r) * (n + r)), kThreads, 0, stream>>>(parts, n, r, gram);
  return cudaGetLastError();
}

cudaError_t gram_diagonal(const double* gram, std::int64_t cols, std::int64_t pitch, double* diagonal,
                          cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_for(cols, kThreads, kMaxGridX));
  diagonal_kernel<<<blocks, kThreads, 0, stream>>>(gram, cols, pitch, diagonal);
  return cudaGetLastError();
}

cudaError_t scale_gram(const double* gram, std::int64_t cols, std::int64_t pitch, double factor, const int* exponent,
                       const double* added, double* out, std::int64_t out_pitch, cudaStream_t stream) {
  scale_kernel<<<blocks_of_elements(cols * cols), kThreads, 0, stream>>>(gram, cols, pitch, factor, exponent, added,
                                                                         out, out_pitch);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
