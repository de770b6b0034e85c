// The strip engine's kernels: strips of A through shared memory, sketch rows in registers, partial results summed in a
// fixed order. What the words mean: strip_plan.h. Why it is fast: A is read once by TMA, several stages ahead, and
// nothing is written until a strip ends; the shared-memory reads, zeta an element, hide behind that.
#include "kernels/strip_engine.h"

#include <algorithm>

#include "kernels/launch_shape.h"
#include "kernels/strip_gather.h"
#include "kernels/tma.h"

namespace tallsketch::cuda {

namespace {

constexpr int kConsumers = kStripWarps * 32;
constexpr int kThreads = kConsumers + 32;  // and a warp that issues the copies
constexpr int kFinishThreads = 256;

struct StripShape {
  const std::byte* table;
  float* partials;
  std::int64_t first_tile, tiles;
  std::int64_t batch_rows, first_row;
  StripGrid grid;
  std::int32_t strips, cluster;
  std::int32_t used_slots;  // of a CTA; the others have no sketch row
  std::int32_t tile_rows, tiles_per_batch;
  std::int32_t box_rows, boxes;
  std::int32_t entries, stages;
  std::uint32_t tile_bytes, entry_bytes, stage_bytes;
  std::uint32_t dense_bytes, offset_bytes;  // of entry_bytes: what comes before the tail offsets, and before the tails
};

// Older architectures have no TMA and no clusters; strip_engine_available keeps their empty kernel from being launched.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/// Row of the slab at which a tile begins; outside the slab the copies read zeros.
__device__ std::int64_t slab_row(const StripShape& shape, std::int64_t tile) {
  return first_row_of_tile(tile, shape.tile_rows, shape.tiles_per_batch, shape.batch_rows) - shape.first_row;
}

/// What a cluster works on, wave after wave: the tiles [begin, end) of one strip.
struct Share {
  std::int64_t begin, end;
  std::int32_t strip_in_wave, split;
};

__device__ Share share_of(const StripShape& shape, std::int32_t cluster) {
  const std::int32_t split = cluster / shape.grid.strips_per_wave;
  return {split_begin(split, shape.grid.splits, shape.tiles), split_begin(split + 1, shape.grid.splits, shape.tiles),
          cluster % shape.grid.strips_per_wave, split};
}

/// The producer: one thread keeps the stages full. Each CTA of a cluster fetches its share of a tile's rows for all.
template <class T, int W>
__device__ void produce(const CUtensorMap* map, const StripShape& shape, std::uint32_t stages, std::uint32_t full,
                        std::uint32_t empty, const Share& share) {
  const std::uint32_t rank = cluster_rank();
  const auto everyone = static_cast<std::uint16_t>((1 << shape.cluster) - 1);
  Ring ring;
  for (int strip = share.strip_in_wave; strip < shape.strips; strip += shape.grid.strips_per_wave) {
    for (std::int64_t tile = share.begin; tile < share.end; ++tile) {
      const std::uint32_t barrier = full + 8 * ring.stage;
      const std::uint32_t stage = stages + ring.stage * shape.stage_bytes;
      barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect_bytes(barrier, shape.tile_bytes + shape.entry_bytes);
      copy_bulk(stage + shape.tile_bytes + kZeroRowBytes,
                shape.table + (tile * shape.cluster + rank) * shape.entry_bytes, shape.entry_bytes, barrier);
      const auto row = static_cast<int>(slab_row(shape, shape.first_tile + tile));
      for (int box = 0; box < shape.boxes; ++box) {
        const int offset = (static_cast<int>(rank) * shape.boxes + box) * shape.box_rows;
        copy_box(stage + static_cast<std::uint32_t>(offset) * (W * sizeof(T)), map, strip * W, row + offset, barrier,
                 everyone);
      }
      ring.advance(static_cast<std::uint32_t>(shape.stages));
    }
  }
}

/// A consumer warp: its groups' slots live in registers from the first tile of a strip to the last.
template <class T, int W, bool kTails>
__device__ void consume(const StripShape& shape, std::uint32_t stages, std::uint32_t full, std::uint32_t empty,
                        const Share& share) {
  static_assert(!kTails || sizeof(T) == 4);
  constexpr int kLanes = W / kLaneColumns<T>;                             // of a lane set
  constexpr int kGroupLanes = kLanes * (kSlotsPerGroup / kLaneSlots<T>);  // of a group
  constexpr int kGroups = kConsumers / kGroupLanes;                       // of the CTA
  const int lane = threadIdx.x % 32;
  const int group = threadIdx.x / kGroupLanes;
  const int first_slot = threadIdx.x % kGroupLanes / kLanes * kLaneSlots<T>;  // of the lane, in its group
  const bool idle = static_cast<int>(threadIdx.x) / 32 * (32 / kGroupLanes) * kSlotsPerGroup >= shape.used_slots;
  const std::uint32_t columns = static_cast<std::uint32_t>(threadIdx.x % kLanes) * 16;
  const auto tiles = static_cast<int>(share.end - share.begin);
  const std::uint32_t unit = sizeof(T) == 2 ? unit_matrix<T>() : 0U;
  Sums<T> sums;
  Ring ring;
  for (int strip = share.strip_in_wave; strip < shape.strips; strip += shape.grid.strips_per_wave) {
#pragma unroll
    for (auto& slot : sums) {
#pragma unroll
      for (float& sum : slot) sum = 0.0F;
    }
    for (int tile = 0; tile < tiles; ++tile) {
      barrier_wait(full + 8 * ring.stage, ring.parity);
      if (!idle) {
        const std::uint32_t rows = stages + ring.stage * shape.stage_bytes;
        const std::uint32_t entries =
            rows + shape.tile_bytes + kZeroRowBytes +
            static_cast<std::uint32_t>(group * shape.entries * kSlotsPerGroup + first_slot) * 2;
#pragma unroll 1
        for (int entry = 0; entry < shape.entries; ++entry) {
          gather<T, W>(sums, entries + entry * (kSlotsPerGroup * 2), rows + columns, unit);
        }
        if constexpr (kTails) {
          const std::uint32_t offsets = rows + shape.tile_bytes + kZeroRowBytes + shape.dense_bytes;
          gather_tail<W>(sums, offsets + 2 * group, offsets + shape.offset_bytes, rows + columns);
        }
      }
      __syncwarp();
      if (lane < shape.cluster) barrier_arrive_in(empty + 8 * ring.stage, static_cast<std::uint32_t>(lane));
      ring.advance(static_cast<std::uint32_t>(shape.stages));
    }
    if (idle) continue;
    const std::int64_t partial =
        (static_cast<std::int64_t>(share.split) * shape.strips + strip) * shape.cluster + cluster_rank();
    float* const out = shape.partials + (partial * kGroups + group) * (kSlotsPerGroup * W) + first_slot * W +
                       threadIdx.x % kLanes * kLaneColumns<T>;
#pragma unroll
    for (int slot = 0; slot < kLaneSlots<T>; ++slot) {
#pragma unroll
      for (int k = 0; k < kLaneColumns<T>; k += 4) {
        *reinterpret_cast<float4*>(out + slot * W + k) =
            make_float4(sums[slot][k], sums[slot][k + 1], sums[slot][k + 2], sums[slot][k + 3]);
      }
    }
  }
}

#endif

template <class T, int W, bool kTails>
__global__ void __launch_bounds__(kThreads, 1) strip_kernel(const __grid_constant__ CUtensorMap map, StripShape shape) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  extern __shared__ __align__(1024) std::byte dynamic_shared[];
  __shared__ __align__(8) std::uint64_t full_barriers[kMaxStages], empty_barriers[kMaxStages];
  const std::uint32_t stages = shared_address(dynamic_shared);
  const std::uint32_t full = shared_address(full_barriers), empty = shared_address(empty_barriers);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      barrier_init(full + 8 * stage, 1);
      barrier_init(empty + 8 * stage, kStripWarps * shape.cluster);
    }
    barrier_init_fence();
  }
  if (threadIdx.x < 32 * kMaxStages && static_cast<int>(threadIdx.x / 32) < shape.stages) {  // the rows of zeros
    std::byte* const zeros = dynamic_shared + threadIdx.x / 32 * shape.stage_bytes + shape.tile_bytes;
    reinterpret_cast<float*>(zeros)[threadIdx.x % 32] = 0.0F;
  }
  __syncthreads();
  cluster_synchronise();

  const Share share = share_of(shape, static_cast<std::int32_t>(blockIdx.x) / shape.cluster);
  if (threadIdx.x < kConsumers) {
    consume<T, W, kTails>(shape, stages, full, empty, share);
  } else if (threadIdx.x == kConsumers) {
    produce<T, W>(&map, shape, stages, full, empty, share);
  }
  __syncwarp();
  cluster_synchronise();  // no CTA leaves while another may still copy into it or arrive at its barriers
#endif
}

struct FinishShape {
  const float* partials;  // (split, strip, CTA, slot, column of the strip)
  float* sketch;
  std::int64_t d, cols, pitch;
  std::int64_t slots, buckets;
  std::int64_t strips;
  std::int32_t splits, width, cluster, parts;
};

/// sketch += the partial results: for every element by split, inside it by part. A thread an element.
__global__ void __launch_bounds__(kFinishThreads) finish_kernel(FinishShape shape) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t total = shape.d * shape.cols;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; k < total; k += stride) {
    const std::int64_t row = k / shape.cols, col = k % shape.cols;
    const std::int64_t strip = col / shape.width, cta = row / shape.buckets, slot = row % shape.buckets;
    float sum = 0;
    for (std::int64_t split = 0; split < shape.splits; ++split) {
      const float* const partial = shape.partials +
                                   ((split * shape.strips + strip) * shape.cluster + cta) * shape.slots * shape.width +
                                   col % shape.width;
      for (int part = 0; part < shape.parts; ++part) sum += partial[(part * shape.buckets + slot) * shape.width];
    }
    shape.sketch[row * shape.pitch + col] += sum;
  }
}

cudaError_t finish(const StripPlan& plan, int splits, const float* partials, const SketchView<float>& sketch,
                   cudaStream_t stream) {
  const FinishShape shape{partials,     sketch.data, sketch.rows, sketch.cols, sketch.pitch, plan.slots(),
                          plan.buckets, plan.strips, splits,      plan.width,  plan.cluster, plan.parts};
  const auto blocks = static_cast<unsigned>(blocks_for(sketch.rows * sketch.cols, kFinishThreads, kMaxGridX));
  finish_kernel<<<blocks, kFinishThreads, 0, stream>>>(shape);
  return cudaGetLastError();
}

using EncodeFunction = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                    const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// The driver's function, asked for at run time: linking libcuda would keep the program from starting without a driver.
cudaError_t find_encoder(EncodeFunction& encode) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
  if (status != cudaSuccess) return status;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  encode = reinterpret_cast<EncodeFunction>(function);
  return cudaSuccess;
}

CUtensorMapDataType tensor_type(ElementType type) {
  return type == ElementType::kFloat16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
         : type == ElementType::kBfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                          : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

cudaError_t make_tensor_map(const SlabView& slab, const StripPlan& plan, CUtensorMap& map) {
  EncodeFunction encode = nullptr;
  if (const cudaError_t status = find_encoder(encode); status != cudaSuccess) return status;
  // The padding counts as columns: whatever stands there ends in columns that finish_kernel does not read.
  const std::int64_t cols = std::min(slab.pitch, plan.strips * plan.width);
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(slab.rows)};
  const std::int64_t pitch_bytes = slab.pitch * element_size(slab.type);
  const cuuint64_t pitch[1] = {static_cast<cuuint64_t>(pitch_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(plan.width), static_cast<cuuint32_t>(plan.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  // Promotion to whole lines pays where a strip's piece of a row is one; else it fetches lines for nothing.
  const bool whole_lines = pitch_bytes % 128 == 0;
  const CUresult result = encode(&map, tensor_type(slab.type), 2, const_cast<void*>(slab.data), sizes, pitch, box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 whole_lines ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <class T, int W, bool kTails>
cudaError_t launch(const CUtensorMap& map, const StripShape& shape, cudaStream_t stream) {
  const auto shared = static_cast<std::size_t>(shape.stages) * shape.stage_bytes;
  const cudaError_t status = cudaFuncSetAttribute(
      strip_kernel<T, W, kTails>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
  if (status != cudaSuccess) return status;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.grid.clusters() * shape.cluster));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, strip_kernel<T, W, kTails>, map, shape);
}

cudaError_t launch_float(const StripPlan& plan, const CUtensorMap& map, const StripShape& shape, cudaStream_t stream) {
  const bool tails = plan.tail_capacity > 0;
  switch (plan.width) {
    case 32: return tails ? launch<float, 32, true>(map, shape, stream) : launch<float, 32, false>(map, shape, stream);
    case 16: return tails ? launch<float, 16, true>(map, shape, stream) : launch<float, 16, false>(map, shape, stream);
    case 8: return tails ? launch<float, 8, true>(map, shape, stream) : launch<float, 8, false>(map, shape, stream);
  }
  return cudaErrorInvalidValue;
}

/// T: __half or __nv_bfloat16.
template <class T>
cudaError_t launch_half(const StripPlan& plan, const CUtensorMap& map, const StripShape& shape, cudaStream_t stream) {
  switch (plan.width) {
    case 64: return launch<T, 64, false>(map, shape, stream);
    case 32: return launch<T, 32, false>(map, shape, stream);
    case 16: return launch<T, 16, false>(map, shape, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launch_for_type(const StripPlan& plan, const CUtensorMap& map, const StripShape& shape,
                            cudaStream_t stream) {
  switch (plan.type) {
    case ElementType::kFloat32: return launch_float(plan, map, shape, stream);
    case ElementType::kFloat16: return launch_half<__half>(plan, map, shape, stream);
    case ElementType::kBfloat16: return launch_half<__nv_bfloat16>(plan, map, shape, stream);
    case ElementType::kFloat64: break;  // no plan serves it
  }
  return cudaErrorInvalidValue;
}

StripShape make_shape(const SketchSpec& spec, const StripPlan& plan, const SlabView& slab, const void* table,
                      TileRange tiles, const StripGrid& grid, float* partials) {
  StripShape shape{};
  shape.table = static_cast<const std::byte*>(table);
  shape.partials = partials;
  shape.first_tile = tiles.first;
  shape.tiles = tiles.count;
  shape.grid = grid;
  shape.used_slots = static_cast<std::int32_t>(plan.parts * plan.buckets);
  shape.batch_rows = spec.batch_rows;
  shape.first_row = slab.first_row;
  shape.strips = static_cast<std::int32_t>(plan.strips);
  shape.cluster = plan.cluster;
  shape.tile_rows = static_cast<std::int32_t>(plan.tile_rows);
  shape.tiles_per_batch = plan.tiles_per_batch;
  shape.box_rows = plan.box_rows;
  shape.boxes = plan.boxes;
  shape.entries = plan.entries;
  shape.stages = plan.stages;
  shape.tile_bytes = static_cast<std::uint32_t>(plan.tile_bytes);
  shape.entry_bytes = static_cast<std::uint32_t>(plan.entry_bytes);
  shape.stage_bytes = static_cast<std::uint32_t>(plan.stage_bytes);
  shape.dense_bytes = static_cast<std::uint32_t>(plan.dense_bytes());
  shape.offset_bytes = static_cast<std::uint32_t>(plan.offset_bytes());
  return shape;
}

}  // namespace

cudaError_t strip_engine_available(bool* available) {
  int device = 0, major = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaFuncAttributes compiled{};
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&compiled, strip_kernel<float, 32, false>);
  *available = status == cudaSuccess && major == 9 && compiled.ptxVersion >= 90;
  return status;
}

cudaError_t strip_sketch(const SketchSpec& spec, const StripPlan& plan, const SlabView& slab, const void* table,
                         TileRange tiles, const StripGrid& grid, float* partials, const SketchView<float>& sketch,
                         cudaStream_t stream) {
  if (slab.rows == 0) return cudaSuccess;
  if (slab.type != plan.type) return cudaErrorInvalidValue;
  CUtensorMap map{};
  if (const cudaError_t status = make_tensor_map(slab, plan, map); status != cudaSuccess) return status;
  const StripShape shape = make_shape(spec, plan, slab, table, tiles, grid, partials);
  const cudaError_t status = launch_for_type(plan, map, shape, stream);
  if (status != cudaSuccess) return status;
  return finish(plan, grid.splits, partials, sketch, stream);
}

}  // namespace tallsketch::cuda
