// What benchmarks need of a device: made-up data, and the read-only pass that they divide by.
#include "kernels/launch_shape.h"
#include "kernels/philox.h"
#include "kernels/sketch_cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void fill_uniform_kernel(T* __restrict__ data, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const std::uint32_t word = random_words(1, k, DrawPurpose::kMatrixEntries, 0).word[0];
    data[k] = T(static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-31F);
  }
}

template <class T>
cudaError_t fill(void* data, std::int64_t count, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(blocks_for(count, kThreads * 16, kMaxGridX));
  fill_uniform_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<T*>(data), count);
  return cudaGetLastError();
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

cudaError_t fill_uniform(void* data, std::int64_t count, ElementType type, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  switch (type) {
    case ElementType::kFloat32: return fill<float>(data, count, stream);
    case ElementType::kFloat16: return fill<__half>(data, count, stream);
    case ElementType::kBfloat16: return fill<__nv_bfloat16>(data, count, stream);
    case ElementType::kFloat64: return fill<double>(data, count, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t read_pass(const float* data, std::int64_t count, float* sink, cudaStream_t stream) {
  // 16 blocks an SM of an H200; more or fewer change nothing (probe).
  constexpr unsigned kBlocks = 132 * 16;
  read_pass_kernel<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<const float4*>(data), count / 4, sink);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
