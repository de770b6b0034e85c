// Normal numbers from counters: the dense Gaussian sketch that benchmarks compare with.
#include "kernels/baselines.h"
#include "kernels/launch_shape.h"
#include "kernels/normal_pair.h"
#include "kernels/philox.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;

__global__ void fill_gaussian_kernel(std::uint64_t seed, std::int64_t first, std::int64_t count, float scale,
                                     float* __restrict__ out) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t fours = (count + 3) / 4;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < fours; k += stride) {
    const RandomWords words = random_words(seed, first / 4 + k, DrawPurpose::kGaussianEntries, 0);
    const float2 a = normal_pair(words.word[0], words.word[1]), b = normal_pair(words.word[2], words.word[3]);
    const float four[4] = {a.x, a.y, b.x, b.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (4 * k + i < count) out[4 * k + i] = scale * four[i];
    }
  }
}

}  // namespace

cudaError_t fill_gaussian(std::uint64_t seed, std::int64_t first, std::int64_t count, float scale, float* out,
                          cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(count, kThreads * 16, kMaxGridX));
  fill_gaussian_kernel<<<blocks, kThreads, 0, stream>>>(seed, first, count, scale, out);
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
