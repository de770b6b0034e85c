// The residual of the sketched problem in FP64, for the quality that sketch-and-solve reports.
#include "kernels/launch_shape.h"
#include "kernels/sketch_cuda.h"

namespace tallsketch::cuda {

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;

/// A warp a row.
template <class T>
__global__ void __launch_bounds__(kWarp* kWarps)
    sketch_residual_kernel(const T* __restrict__ sketch, std::int64_t rows, std::int64_t n, std::int64_t r,
                           std::int64_t pitch, const double* __restrict__ x, double scale, double* __restrict__ out) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp; i < rows; i += stride) {
    const T* const row = sketch + i * pitch;
    for (std::int64_t k = 0; k < r; ++k) {
      double sum = 0;
      for (std::int64_t j = lane; j < n; j += kWarp) sum += static_cast<double>(row[j]) * x[j * r + k];
#pragma unroll
      for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
      if (lane == 0) out[i * r + k] = scale * (static_cast<double>(row[n + k]) - sum);
    }
  }
}

template <class T>
cudaError_t launch(const SketchView<T>& sketch, std::int64_t n, const double* x, double scale, double* out,
                   cudaStream_t stream) {
  if (sketch.rows == 0 || sketch.cols == n) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(sketch.rows, kWarps, kMaxGridX));
  sketch_residual_kernel<<<blocks, kWarp * kWarps, 0, stream>>>(sketch.data, sketch.rows, n, sketch.cols - n,
                                                                sketch.pitch, x, scale, out);
  return cudaGetLastError();
}

}  // namespace

cudaError_t sketch_residual(const SketchView<float>& sketch, std::int64_t n, const double* x, double scale, double* out,
                            cudaStream_t stream) {
  return launch(sketch, n, x, scale, out, stream);
}
cudaError_t sketch_residual(const SketchView<double>& sketch, std::int64_t n, const double* x, double scale,
                            double* out, cudaStream_t stream) {
  return launch(sketch, n, x, scale, out, stream);
}

}  // namespace tallsketch::cuda
