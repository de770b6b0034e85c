// A triangle out of the memory of a factorisation: a block a column.
#include "kernels/triangle_cuda.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_triangle_kernel(const T* __restrict__ in, std::int64_t pitch, std::int64_t n, double* __restrict__ r,
                         double* __restrict__ identity, double* __restrict__ figures) {
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

}  // namespace tallsketch::cuda
