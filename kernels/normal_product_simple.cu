#include "kernels/normal_product_simple.h"

#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/normal_product_plan.h"

namespace tallsketch::cuda {

namespace {

constexpr unsigned kWarp = 0xffffffffU;

struct SimpleShape {
  const void* a;
  RightHandSides b;
  const double* x;
  double* partials;  // (CTA, n + 1, rhs)
  std::int64_t rows, n, pitch, x_pitch;
  std::int32_t rhs;
};

template <class T>
__device__ double element(const SimpleShape& shape, std::int64_t row, std::int64_t column) {
  const T value = static_cast<const T*>(shape.a)[row * shape.pitch + column];
  if constexpr (std::is_same_v<T, __half>) {
    return static_cast<double>(__half2float(value));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return static_cast<double>(__bfloat162float(value));
  } else {
    return static_cast<double>(value);
  }
}

/// Residuals of one row, by a warp; 0 for right-hand sides that do not exist.
template <class T>
__device__ void residuals_of_row(double (&residuals)[kMostRhs], const SimpleShape& shape, std::int64_t row) {
  const int lane = threadIdx.x % 32;
  double products[kMostRhs] = {};
  for (std::int64_t column = lane; column < shape.n; column += 32) {
    const double value = element<T>(shape, row, column);
    for (int q = 0; q < shape.b.count; ++q) products[q] = fma(value, shape.x[column * shape.x_pitch + q], products[q]);
  }
  for (int q = 0; q < kMostRhs; ++q) {
    for (int bit = 1; bit < 32; bit *= 2) products[q] += __shfl_xor_sync(kWarp, products[q], bit);
    const double b = q < shape.b.count && shape.b.data != nullptr ? shape.b.load(shape.b.address(row, q)) : 0.0;
    residuals[q] = b - products[q];
  }
}

template <class T>
__global__ void __launch_bounds__(kSimpleRows * 32) simple_kernel(const SimpleShape shape) {
  __shared__ double residuals[kSimpleRows][kMostRhs];
  double* const partial = shape.partials + std::int64_t{blockIdx.x} * (shape.n + 1) * shape.rhs;
  for (std::int64_t k = threadIdx.x; k < (shape.n + 1) * shape.rhs; k += blockDim.x) partial[k] = 0.0;
  const int warp = threadIdx.x / 32;
  const std::int64_t step = std::int64_t{gridDim.x} * kSimpleRows;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kSimpleRows; first < shape.rows; first += step) {
    double mine[kMostRhs] = {};
    if (first + warp < shape.rows) residuals_of_row<T>(mine, shape, first + warp);
    __syncthreads();  // the rows before are done with, and partial is zero
    if (threadIdx.x % 32 == 0) {
      for (int q = 0; q < kMostRhs; ++q) residuals[warp][q] = mine[q];
    }
    __syncthreads();
    const std::int64_t rows = shape.rows - first < kSimpleRows ? shape.rows - first : kSimpleRows;
    for (std::int64_t column = threadIdx.x; column <= shape.n; column += blockDim.x) {  // column n: the squares
      for (std::int64_t i = 0; i < rows; ++i) {
        for (int q = 0; q < shape.rhs; ++q) {
          const double value = column < shape.n ? element<T>(shape, first + i, column) : residuals[i][q];
          double& sum = partial[column * shape.rhs + q];
          sum = fma(value, residuals[i][q], sum);
        }
      }
    }
  }
}

template <class T>
cudaError_t launch(const SimpleShape& shape, unsigned ctas, cudaStream_t stream) {
  simple_kernel<T><<<ctas, kSimpleRows * 32, 0, stream>>>(shape);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_simple_normal_product(const SlabView& a, const RightHandSides& b, const double* x,
                                         std::int64_t x_pitch, std::int32_t rhs, double* partials, unsigned ctas,
                                         cudaStream_t stream) {
  const SimpleShape shape{a.data, b, x, partials, a.rows, a.cols, a.pitch, x_pitch, rhs};
  switch (a.type) {
    case ElementType::kFloat32: return launch<float>(shape, ctas, stream);
    case ElementType::kFloat64: return launch<double>(shape, ctas, stream);
    case ElementType::kFloat16: return launch<__half>(shape, ctas, stream);
    case ElementType::kBfloat16: return launch<__nv_bfloat16>(shape, ctas, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tallsketch::cuda
