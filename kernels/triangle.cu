// A triangle out of the memory of a factorisation: a block a column.
#include "kernels/triangle_cuda.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_triangle_kernel(const T* in, std::int64_t pitch, std::int64_t n, double* r, double* __restrict__ identity,
                         double* __restrict__ figures) {
  __shared__ double sums[kThreads];
  const std::int64_t j = blockIdx.x;
  double squares = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) {
    const double value = i <= j ? static_cast<double>(in[j * pitch + i]) : 0.0;
    r[j * n + i] = value;
    identity[j * n + i] = i == j ? 1.0 : 0.0;
    squares += value * value;
    if (i == j) figures[j] = value;
  }
  sums[threadIdx.x] = squares;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) figures[n + j] = sqrt(sums[0]);
}

constexpr int kNormThreads = 512;

/// Block k: vector k.
__global__ void __launch_bounds__(kNormThreads)
    two_norms_kernel(const double* __restrict__ vectors, std::int64_t n, double* __restrict__ norms) {
  __shared__ double sums[kNormThreads];
  const double* const v = vectors + blockIdx.x * n;
  double squares = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kNormThreads) squares += v[i] * v[i];
  sums[threadIdx.x] = squares;
  for (int half = kNormThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) norms[blockIdx.x] = sqrt(sums[0]);
}

template <class T>
cudaError_t launch(const T* in, std::int64_t pitch, std::int64_t n, double* r, double* identity, double* figures,
                   cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  take_triangle_kernel<<<static_cast<unsigned>(n), kThreads, 0, stream>>>(in, pitch, n, r, identity, figures);
  return cudaGetLastError();
}

}  // namespace

cudaError_t take_triangle(const float* in, std::int64_t pitch, std::int64_t n, double* r, double* identity,
                          double* figures, cudaStream_t stream) {
  return launch(in, pitch, n, r, identity, figures, stream);
}

cudaError_t take_triangle(const double* in, std::int64_t pitch, std::int64_t n, double* r, double* identity,
                          double* figures, cudaStream_t stream) {
  return launch(in, pitch, n, r, identity, figures, stream);
}

cudaError_t two_norms(const double* vectors, std::int64_t n, double* norms, cudaStream_t stream) {
  two_norms_kernel<<<2, kNormThreads, 0, stream>>>(vectors, n, norms);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
