// The scatter kernels of paper F: a thread streams down one column (FP32) or one pair of columns (FP16, BF16), and
// every element goes to zeta sketch rows by reductions without a result. A is read once; the L2 atomics limit.
#include "kernels/launch_shape.h"
#include "kernels/rounded_half.h"
#include "kernels/signed_entry.h"
#include "kernels/sketch_cuda.h"
#include "kernels/sketch_rule.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tallsketch::cuda {

namespace {

// Paper F, section III-C: 32 x 16 threads, lanes on consecutive columns; zeta peeled to 8.
constexpr int kLanes = 32;
constexpr int kRowsPerBlock = 16;
constexpr int kPeeled = 8;
constexpr int kThreads = 256;
// Enough blocks to fill the device many times over and even out their ends; rows beyond are strided over.
constexpr std::int64_t kMaxRowBlocks = 8192;

__global__ void fill_entries_kernel(SketchSpec spec, std::int64_t first_row, std::int64_t count,
                                    std::uint32_t* __restrict__ entries) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += stride) {
    const SketchEntry entry = sketch_entry(spec, first_row + k / spec.zeta, static_cast<std::int32_t>(k % spec.zeta));
    entries[k] = static_cast<std::uint32_t>(entry.sketch_row) | (entry.negative ? kEntrySign : 0U);
  }
}

__device__ void add_signed(float* __restrict__ column, std::int64_t pitch, std::uint32_t entry, float value) {
  atomicAdd(column + static_cast<std::int64_t>(entry_row(entry)) * pitch, with_sign(value, entry));
}

__global__ void __launch_bounds__(kLanes* kRowsPerBlock)
    scatter_fp32_kernel(const float* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                        const std::uint32_t* __restrict__ entries, int zeta, float* __restrict__ sketch,
                        std::int64_t sketch_pitch) {
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.y) * kLanes + threadIdx.x;
  if (col >= cols) return;
  float* const column = sketch + col;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsPerBlock;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y; i < rows; i += stride) {
    const float value = __ldcs(slab + i * pitch + col);
    const std::uint32_t* const row_entries = entries + i * zeta;
#pragma unroll
    for (int t = 0; t < kPeeled; ++t) {
      if (t < zeta) add_signed(column, sketch_pitch, row_entries[t], value);
    }
    for (int t = kPeeled; t < zeta; ++t) add_signed(column, sketch_pitch, row_entries[t], value);
  }
}

__global__ void __launch_bounds__(kThreads)
    scatter_fp32_narrow_kernel(const float* __restrict__ slab, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                               const std::uint32_t* __restrict__ entries, int zeta, float* __restrict__ sketch,
                               std::int64_t sketch_pitch) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows; i += stride) {
    for (int t = 0; t < zeta; ++t) {
      const std::uint32_t entry = entries[i * zeta + t];
      for (std::int64_t k = 0; k < cols; ++k) add_signed(sketch + k, sketch_pitch, entry, slab[i * pitch + k]);
    }
  }
}

// ---- 16 bits --------------------------------------------------------------------------------------------------------

__device__ std::uint32_t bits_of(__half2 pair) {
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
__device__ std::uint32_t bits_of(__nv_bfloat162 pair) {
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// Both elements rounded to nearest even, the first in the lower half.
template <class Format>
__device__ std::uint32_t nearest_pair(float2 product);
template <>
__device__ std::uint32_t nearest_pair<Binary16>(float2 product) {
  return bits_of(__floats2half2_rn(product.x, product.y));
}
template <>
__device__ std::uint32_t nearest_pair<Bfloat16>(float2 product) {
  return bits_of(__floats2bfloat162_rn(product.x, product.y));
}

/// Adds both elements in global memory, each rounded to nearest by itself. The overload of atomicAdd for half2 compiles
/// to ATOM with a return path; this is the reduction without one.
template <class Format>
__device__ void reduce_pair(std::uint32_t* address, std::uint32_t packed);
template <>
__device__ void reduce_pair<Binary16>(std::uint32_t* address, std::uint32_t packed) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(address), "r"(packed) : "memory");
}
template <>
__device__ void reduce_pair<Bfloat16>(std::uint32_t* address, std::uint32_t packed) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(address), "r"(packed) : "memory");
#else
  __nv_bfloat162 pair;
  memcpy(&pair, &packed, sizeof pair);
  atomicAdd(reinterpret_cast<__nv_bfloat162*>(address), pair);  // a loop of compare and swap before Hopper
#endif
}

// Two products on their way into the sketch. Made once a row; then, for every group of kBlocksPerDraw blocks, draw()
// and packed(u) for block u of the group. All three are odd in distribution, so S's sign is put on afterwards.

/// One conversion serves all blocks.
template <class F>
struct NearestPair {
  using Format = F;
  std::uint32_t bits;

  __device__ explicit NearestPair(float2 product) : bits(nearest_pair<F>(product)) {}
  __device__ void draw(std::uint64_t, std::int64_t, std::uint32_t, std::uint32_t) {}
  __device__ std::uint32_t packed(int) const { return bits; }
};

/// The neighbours are found once, the choice between them is made for every block.
template <class F>
struct StochasticPair {
  using Format = F;
  Bracket x, y;
  RandomWords words;

  __device__ explicit StochasticPair(float2 product) : x(bracket<F>(product.x)), y(bracket<F>(product.y)) {}
  __device__ void draw(std::uint64_t seed, std::int64_t row, std::uint32_t pair, std::uint32_t group) {
    words = rounding_words(seed, row, pair, group);
  }
  __device__ std::uint32_t packed(int u) const {
    return round_stochastically(x, rounding_bits(words, 2 * u)) |
           round_stochastically(y, rounding_bits(words, 2 * u + 1)) << 16;
  }
};

template <class F>
struct DitheredPair {
  using Format = F;
  float2 product;
  RandomWords words;

  __device__ explicit DitheredPair(float2 product) : product(product) {}
  __device__ void draw(std::uint64_t seed, std::int64_t row, std::uint32_t pair, std::uint32_t group) {
    words = rounding_words(seed, row, pair, group);
  }
  __device__ std::uint32_t packed(int u) const {
    return nearest_pair<F>(
        {dithered<F>(product.x, rounding_bits(words, 2 * u)), dithered<F>(product.y, rounding_bits(words, 2 * u + 1))});
  }
};

/// What a thread has lost so far.
struct ThreadLosses {
  unsigned overflowed = 0, flushed = 0;

  template <class Format>
  __device__ void count(float2 product, std::uint32_t packed) {
    overflowed += has_overflowed<Format>(product.x, packed) + has_overflowed<Format>(product.y, packed >> 16);
    flushed += was_flushed(product.x, packed) + was_flushed(product.y, packed >> 16);
  }
};

/// Adds the counts of a whole warp to a counter; most have nothing to add.
__device__ void add_of_warp(unsigned long long* counter, unsigned mine) {
  constexpr unsigned kAllLanes = 0xffffffffU;
  if (__any_sync(kAllLanes, mine != 0) == 0) return;
  unsigned long long sum = mine;
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_down_sync(kAllLanes, sum, distance);
  if (threadIdx.x == 0) atomicAdd(counter, sum);
}

/// The arguments of scatter_half, for the kernel.
struct HalfScatter {
  const float* slab;
  std::int64_t rows, pairs, pitch, first_row;
  const std::uint32_t* entries;
  int zeta;
  std::uint64_t seed;
  const float2* factor;
  std::uint32_t* sketch;
  std::int64_t pair_pitch;
  RoundingLosses* losses;
};

template <class Pair>
__global__ void __launch_bounds__(kLanes* kRowsPerBlock) scatter_half_kernel(HalfScatter job) {
  using Format = typename Pair::Format;
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.y) * kLanes + threadIdx.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.y;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRowsPerBlock;
  const bool inside = pair < job.pairs;  // the other lanes only help to add up the losses
  const float2 scale = inside ? job.factor[pair] : float2{0, 0};
  std::uint32_t* const column = job.sketch + pair;
  ThreadLosses lost;
  for (std::int64_t i = first; inside && i < job.rows; i += stride) {
    float2 product = __ldcs(reinterpret_cast<const float2*>(job.slab + i * job.pitch) + pair);
    product.x *= scale.x;
    product.y *= scale.y;
    const bool safe = is_safe<Format>(product.x) && is_safe<Format>(product.y);
    const std::uint32_t* const row_entries = job.entries + i * job.zeta;
    Pair rounded(product);
    const auto add_group = [&](int begin) {
      rounded.draw(job.seed, job.first_row + i, static_cast<std::uint32_t>(pair),
                   static_cast<std::uint32_t>(begin / kBlocksPerDraw));
#pragma unroll
      for (int u = 0; u < kBlocksPerDraw; ++u) {
        if (begin + u >= job.zeta) break;
        const std::uint32_t entry = row_entries[begin + u];
        const std::uint32_t packed = rounded.packed(u);
        if (!safe) lost.count<Format>(product, packed);
        const std::uint32_t sign = entry & kEntrySign;
        reduce_pair<Format>(column + static_cast<std::int64_t>(entry_row(entry)) * job.pair_pitch,
                            packed ^ (sign | sign >> 16));
      }
    };
#pragma unroll
    for (int begin = 0; begin < kPeeled; begin += kBlocksPerDraw) {
      if (begin < job.zeta) add_group(begin);
    }
    for (int begin = kPeeled; begin < job.zeta; begin += kBlocksPerDraw) add_group(begin);
  }
  add_of_warp(&job.losses->overflowed, lost.overflowed);
  add_of_warp(&job.losses->flushed, lost.flushed);
}

/// nullptr for a sketch that is not accumulated in 16 bits.
auto half_kernel(const SketchSpec& spec) -> void (*)(HalfScatter) {
  if (!is_half(spec.precision)) return nullptr;
  const bool fp16 = spec.precision == SketchPrecision::kFp16;
  switch (spec.rounding) {
    case SketchRounding::kNearest:
      return fp16 ? scatter_half_kernel<NearestPair<Binary16>> : scatter_half_kernel<NearestPair<Bfloat16>>;
    case SketchRounding::kStochastic:
      return fp16 ? scatter_half_kernel<StochasticPair<Binary16>> : scatter_half_kernel<StochasticPair<Bfloat16>>;
    case SketchRounding::kDither:
      return fp16 ? scatter_half_kernel<DitheredPair<Binary16>> : scatter_half_kernel<DitheredPair<Bfloat16>>;
  }
  return nullptr;
}

dim3 scatter_grid(std::int64_t rows, std::int64_t lanes) {
  return {static_cast<unsigned>(blocks_for(rows, kRowsPerBlock, kMaxRowBlocks)),
          static_cast<unsigned>(blocks_for(lanes, kLanes, kMaxGridY)), 1};
}

}  // namespace

cudaError_t fill_entries(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows, std::uint32_t* entries,
                         cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  const std::int64_t count = rows * spec.zeta;
  const auto blocks = static_cast<unsigned>(blocks_for(count, kThreads, kMaxGridX));
  fill_entries_kernel<<<blocks, kThreads, 0, stream>>>(spec, first_row, count, entries);
  return cudaGetLastError();
}

cudaError_t scatter_fp32(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                         const SketchView<float>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  scatter_fp32_kernel<<<scatter_grid(slab.rows, slab.cols), dim3(kLanes, kRowsPerBlock), 0, stream>>>(
      static_cast<const float*>(slab.data), slab.rows, slab.cols, slab.pitch, entries, spec.zeta, sketch.data,
      sketch.pitch);
  return cudaGetLastError();
}

cudaError_t scatter_fp32_narrow(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                                const SketchView<float>& sketch, cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(blocks_for(slab.rows, kThreads, kMaxGridX));
  scatter_fp32_narrow_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<const float*>(slab.data), slab.rows,
                                                              slab.cols, slab.pitch, entries, spec.zeta, sketch.data,
                                                              sketch.pitch);
  return cudaGetLastError();
}

cudaError_t scatter_half(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                         const float* factor, const SketchView<std::uint16_t>& sketch, RoundingLosses* losses,
                         cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const auto kernel = half_kernel(spec);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  const std::int64_t pairs = (slab.cols + 1) / 2;
  kernel<<<scatter_grid(slab.rows, pairs), dim3(kLanes, kRowsPerBlock), 0, stream>>>(
      {static_cast<const float*>(slab.data), slab.rows, pairs, slab.pitch, slab.first_row, entries, spec.zeta,
       spec.seed, reinterpret_cast<const float2*>(factor), reinterpret_cast<std::uint32_t*>(sketch.data),
       sketch.pitch / 2, losses});
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
