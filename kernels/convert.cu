// Element conversions on the device: stored types to FP32 and FP64, sketches to and from 16 bits.
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

template <class Out, class In>
__device__ Out converted(In value) {
  if constexpr (sizeof(In) == 8 && sizeof(Out) == 8) {
    return value;
  } else {
    return static_cast<Out>(widened(value));
  }
}

/// Four neighbours, moved by as few instructions as their alignment allows.
template <class T>
struct alignas(sizeof(T) >= 4 ? 16 : 8) Four {
  T value[4];
};

template <class T>
bool fours_are_aligned(const T* data, std::int64_t pitch) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Four<T>) == 0 && pitch % 4 == 0;
}

/// Four columns a thread: a division by the length of a row, which is no constant, costs as much as moving them.
template <class Out, class In>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const In* __restrict__ in, std::int64_t rows, std::int64_t cols, std::int64_t pitch, bool in_fours,
                   CheckRows zeros, std::int64_t first_row, Out* __restrict__ out, std::int64_t width,
                   std::int64_t out_pitch, bool out_fours) {
  const std::int64_t row_fours = (width + 3) / 4, total = rows * row_fours;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < total; k += stride) {
    const std::int64_t row =
        total >> 32 == 0 ? static_cast<std::uint32_t>(k) / static_cast<std::uint32_t>(row_fours) : k / row_fours;
    const std::int64_t col = 4 * (k - row * row_fours);
    const bool zero = zeros.holds(first_row + row);
    const In* const from = in + row * pitch + col;
    Out* const to = out + row * out_pitch + col;
    Four<Out> four;
    if (in_fours && col + 4 <= cols) {
      const auto loaded = *reinterpret_cast<const Four<In>*>(from);
#pragma unroll
      for (int i = 0; i < 4; ++i) four.value[i] = zero ? Out(0) : converted<Out>(loaded.value[i]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) four.value[i] = zero || col + i >= cols ? Out(0) : converted<Out>(from[i]);
    }
    if (out_fours && col + 4 <= width) {
      *reinterpret_cast<Four<Out>*>(to) = four;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (col + i < width) to[i] = four.value[i];
      }
    }
  }
}

template <class Out, class In>
cudaError_t convert(const SlabView& in, const CheckRows& zeros, Out* out, std::int64_t width, std::int64_t out_pitch,
                    cudaStream_t stream) {
  const auto* const data = static_cast<const In*>(in.data);
  const auto blocks = static_cast<unsigned>(blocks_for(in.rows * ((width + 3) / 4), kThreads * 4, kMaxGridX));
  convert_kernel<<<blocks, kThreads, 0, stream>>>(data, in.rows, in.cols, in.pitch, fours_are_aligned(data, in.pitch),
                                                  zeros, in.first_row, out, width, out_pitch,
                                                  fours_are_aligned(out, out_pitch));
  return cudaGetLastError();
}

template <class Out>
cudaError_t convert_any(const SlabView& in, const CheckRows& zeros, Out* out, std::int64_t width,
                        std::int64_t out_pitch, cudaStream_t stream) {
  if (in.rows == 0 || width == 0) return cudaSuccess;
  switch (in.type) {
    case ElementType::kFloat32: return convert<Out, float>(in, zeros, out, width, out_pitch, stream);
    case ElementType::kFloat64: return convert<Out, double>(in, zeros, out, width, out_pitch, stream);
    case ElementType::kFloat16: return convert<Out, __half>(in, zeros, out, width, out_pitch, stream);
    case ElementType::kBfloat16: return convert<Out, __nv_bfloat16>(in, zeros, out, width, out_pitch, stream);
  }
  return cudaErrorInvalidValue;
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
  return convert_any(in, {}, out, out_pitch, out_pitch, stream);
}

cudaError_t convert_to_double(const SlabView& in, const CheckRows& zeros, double* out, std::int64_t width,
                              std::int64_t out_pitch, cudaStream_t stream) {
  return convert_any(in, zeros, out, width, out_pitch, stream);
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
