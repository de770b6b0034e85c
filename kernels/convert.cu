// Element conversions on the device: stored types to FP32, sketches to and from 16 bits.
#include "kernels/launch_shape.h"
#include "kernels/sketch_cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;

__device__ float widened(float value) { return value; }
__device__ float widened(double value) { return __double2float_rn(value); }
__device__ float widened(__half value) { return __half2float(value); }
__device__ float widened(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
__global__ void convert_kernel(const T* __restrict__ in, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                               float* __restrict__ out, std::int64_t out_pitch) {
  const std::int64_t count = rows * out_pitch;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const std::int64_t row = k / out_pitch, col = k - row * out_pitch;
    out[k] = col < cols ? widened(in[row * pitch + col]) : 0.0F;
  }
}

template <class T>
cudaError_t convert(const SlabView& in, float* out, std::int64_t out_pitch, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_for(in.rows * out_pitch, kThreads * 4, kMaxGridX));
  convert_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const T*>(in.data), in.rows, in.cols, in.pitch, out,
                                                  out_pitch);
  return cudaGetLastError();
}

template <class T>
__global__ void widen_half_kernel(const T* __restrict__ in, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                                  const double* __restrict__ inverse, float* __restrict__ out, std::int64_t out_pitch) {
  const std::int64_t count = rows * cols;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const std::int64_t row = k / cols, col = k - row * cols;
    out[row * out_pitch + col] = __double2float_rn(inverse[col] * static_cast<double>(widened(in[row * pitch + col])));
  }
}

template <class T>
cudaError_t widen(const SketchView<std::uint16_t>& in, const double* inverse, const SketchView<float>& out,
                  cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_for(in.rows * in.cols, kThreads * 4, kMaxGridX));
  widen_half_kernel<<<blocks, kThreads, 0, stream>>>(reinterpret_cast<const T*>(in.data), in.rows, in.cols, in.pitch,
                                                     inverse, out.data, out.pitch);
  return cudaGetLastError();
}

__global__ void narrow_to_half_kernel(const float* __restrict__ in, std::int64_t rows, std::int64_t cols,
                                      std::int64_t pitch, const double* __restrict__ factor, __half* __restrict__ out,
                                      std::int64_t out_pitch) {
  const std::int64_t count = rows * cols;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const std::int64_t row = k / cols, col = k - row * cols;
    out[row * out_pitch + col] = __double2half(factor[col] * static_cast<double>(in[row * pitch + col]));
  }
}

}  // namespace

cudaError_t convert_to_float(const SlabView& in, float* out, std::int64_t out_pitch, cudaStream_t stream) {
  if (in.rows == 0 || in.cols == 0) return cudaSuccess;
  switch (in.type) {
    case ElementType::kFloat32: return convert<float>(in, out, out_pitch, stream);
    case ElementType::kFloat64: return convert<double>(in, out, out_pitch, stream);
    case ElementType::kFloat16: return convert<__half>(in, out, out_pitch, stream);
    case ElementType::kBfloat16: return convert<__nv_bfloat16>(in, out, out_pitch, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t narrow_to_half(const SketchView<float>& in, const double* factor, const SketchView<std::uint16_t>& out,
                           cudaStream_t stream) {
  if (in.rows == 0 || in.cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(in.rows * in.cols, kThreads * 4, kMaxGridX));
  narrow_to_half_kernel<<<blocks, kThreads, 0, stream>>>(in.data, in.rows, in.cols, in.pitch, factor,
                                                         reinterpret_cast<__half*>(out.data), out.pitch);
  return cudaGetLastError();
}

cudaError_t widen_half(ElementType type, const SketchView<std::uint16_t>& in, const double* inverse,
                       const SketchView<float>& out, cudaStream_t stream) {
  if (in.rows == 0 || in.cols == 0) return cudaSuccess;
  if (type == ElementType::kFloat16) return widen<__half>(in, inverse, out, stream);
  if (type == ElementType::kBfloat16) return widen<__nv_bfloat16>(in, inverse, out, stream);
  return cudaErrorInvalidValue;
}

}  // namespace tallsketch::cuda
