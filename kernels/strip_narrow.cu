// The strip engine's way with the few columns of b, from the same entry tables: b's rows of a few tiles and their
// tables in shared memory, and the sums of all slots beside them. What the words mean: strip_plan.h.
#include <algorithm>

#include "kernels/launch_shape.h"
#include "kernels/rounding.h"
#include "kernels/strip_engine.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 512;
constexpr int kFinishLanes = 16;
// Blocks, each of a few tiles at a time: four on an SM of an H200 hide each other's loads.
constexpr std::int64_t kMostBlocks = 4 * 132;
constexpr std::int64_t kSharedBytes = 56 << 10;
constexpr std::int64_t kMostTilesAtOnce = 4;

struct NarrowShape {
  const std::byte* table;
  const float* b;
  float* partials;  // (block, slot of all CTAs, column)
  std::int64_t rows, pitch, cols;
  std::int64_t first_col;  // of this launch
  std::int64_t first_tile, tiles;
  std::int64_t batch_rows, first_row;
  std::int32_t tile_rows, tiles_per_batch;
  std::int32_t zero_row,
      tile_stride;  // of a tile in shared memory: rows as the strips have them, then the row of zeros
  std::int32_t tiles_at_once;
  std::int32_t cluster, slots, entries;    // slots of a CTA of the strips
  std::int32_t table_bytes, entry_bytes;   // of a tile: all CTAs, one CTA
  std::int32_t dense_bytes, offset_bytes;  // of entry_bytes, as in StripPlan
};

/// kColumns columns of one row of b.
template <int kColumns>
struct alignas(4 * kColumns) RowOfB {
  float column[kColumns];
};

template <int kColumns>
__device__ void add_signed(RowOfB<kColumns>& sum, const RowOfB<kColumns>* rows, std::uint32_t entry) {
  const RowOfB<kColumns> row = rows[entry >> 1 & 0x7fffU];
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    sum.column[k] += __uint_as_float(__float_as_uint(row.column[k]) ^ (entry << 31));
  }
}

/// Copies the columns from `column` on of `count` tiles' rows, and the tiles' tables, to shared memory.
template <int kColumns>
__device__ void load_tiles(const NarrowShape& shape, std::int64_t first, int count, std::int64_t column,
                           RowOfB<kColumns>* rows, uint4* tables) {
  for (int i = threadIdx.x; i < count * shape.tile_stride; i += kThreads) {
    const int k = i % shape.tile_stride;
    const std::int64_t tile = shape.first_tile + first + i / shape.tile_stride;
    const std::int64_t row =
        first_row_of_tile(tile, shape.tile_rows, shape.tiles_per_batch, shape.batch_rows) - shape.first_row + k;
    const bool exists = k < shape.zero_row && row >= 0 && row < shape.rows;
    RowOfB<kColumns> values;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      values.column[j] = exists && column + j < shape.cols ? shape.b[row * shape.pitch + column + j] : 0.0F;
    }
    rows[i] = values;
  }
  const auto* const from = reinterpret_cast<const uint4*>(shape.table + first * shape.table_bytes);
  for (int i = threadIdx.x; i < count * (shape.table_bytes / 16); i += kThreads) tables[i] = __ldg(from + i);
}

/// The entries that did not fit the slots, a thread a group of slots: they are its own.
template <int kColumns>
__device__ void add_tails(const NarrowShape& shape, int count, const std::byte* tables, const RowOfB<kColumns>* rows,
                          RowOfB<kColumns>* sums) {
  const int groups = shape.slots / kSlotsPerGroup;
  for (int index = threadIdx.x; index < shape.cluster * groups; index += kThreads) {
    const std::byte* part = tables + index / groups * shape.entry_bytes + shape.dense_bytes;
    for (int tile = 0; tile < count; ++tile, part += shape.table_bytes) {
      const auto* const offsets = reinterpret_cast<const std::uint16_t*>(part) + index % groups;
      const auto* const tails = reinterpret_cast<const std::uint32_t*>(part + shape.offset_bytes);
      for (int k = offsets[0]; k < offsets[1]; ++k) {
        add_signed(sums[index * kSlotsPerGroup + static_cast<int>(tails[k] >> 16)], rows + tile * shape.tile_stride,
                   tails[k]);
      }
    }
  }
}

/// kColumns columns of b, a run of tiles. Every sum is touched by one thread at a time.
template <int kColumns>
__global__ void __launch_bounds__(kThreads) narrow_kernel(NarrowShape shape) {
  extern __shared__ __align__(16) std::byte tables[];
  using Row = RowOfB<kColumns>;
  auto* const rows = reinterpret_cast<Row*>(tables + shape.tiles_at_once * shape.table_bytes);
  Row* const sums = rows + shape.tiles_at_once * shape.tile_stride;
  const int all_slots = shape.cluster * shape.slots;
  const std::int64_t column = shape.first_col + std::int64_t{blockIdx.y} * kColumns;
  const std::int64_t begin = split_begin(blockIdx.x, gridDim.x, shape.tiles);
  const std::int64_t end = split_begin(blockIdx.x + 1, gridDim.x, shape.tiles);
  for (int slot = threadIdx.x; slot < all_slots; slot += kThreads) sums[slot] = Row{};
  for (std::int64_t first = begin; first < end; first += shape.tiles_at_once) {
    const auto count = static_cast<int>(min(static_cast<std::int64_t>(shape.tiles_at_once), end - first));
    __syncthreads();
    load_tiles(shape, first, count, column, rows, reinterpret_cast<uint4*>(tables));
    __syncthreads();
    for (int slot = threadIdx.x; slot < all_slots; slot += kThreads) {
      const std::byte* own =
          tables + slot / shape.slots * shape.entry_bytes +
          2 * (slot % shape.slots / kSlotsPerGroup * shape.entries * kSlotsPerGroup + slot % kSlotsPerGroup);
      Row sum = sums[slot];
      for (int tile = 0; tile < count; ++tile, own += shape.table_bytes) {
        const auto* const entries = reinterpret_cast<const std::uint16_t*>(own);
        for (int entry = 0; entry < shape.entries; ++entry) {
          add_signed(sum, rows + tile * shape.tile_stride, std::uint32_t{entries[entry * kSlotsPerGroup]});
        }
      }
      sums[slot] = sum;
    }
    if (shape.offset_bytes == 0) continue;
    __syncthreads();
    add_tails(shape, count, tables, rows, sums);
  }
  __syncthreads();
  for (int slot = threadIdx.x; slot < all_slots; slot += kThreads) {
    float* const out = shape.partials + (std::int64_t{blockIdx.x} * all_slots + slot) * shape.cols + column;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      if (column + k < shape.cols) out[k] = sums[slot].column[k];
    }
  }
}

struct FinishShape {
  const float* partials;
  float* sketch;
  std::int64_t d, cols, pitch;
  std::int64_t slots, buckets;
  std::int32_t splits, cluster, parts;
};

/// sketch += the partial results. There are few elements and many splits, so the splits share the waiting: split k goes
/// to lane k mod 16, there by part; then lane by lane.
__global__ void __launch_bounds__(32 * kFinishLanes) finish_narrow_kernel(FinishShape shape) {
  __shared__ float sums[kFinishLanes][33];
  const std::int64_t k = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  const std::int64_t row = k / shape.cols, col = k % shape.cols;
  const std::int64_t cta = row / shape.buckets, slot = row % shape.buckets;
  float sum = 0;
  if (row < shape.d) {
    for (std::int64_t split = threadIdx.y; split < shape.splits; split += kFinishLanes) {
      const float* const partial = shape.partials + (split * shape.cluster + cta) * shape.slots * shape.cols + col;
      for (int part = 0; part < shape.parts; ++part) sum += partial[(part * shape.buckets + slot) * shape.cols];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || row >= shape.d) return;
  for (int lane = 1; lane < kFinishLanes; ++lane) sum += sums[lane][threadIdx.x];
  shape.sketch[row * shape.pitch + col] += sum;
}

NarrowShape make_shape(const SketchSpec& spec, const StripPlan& plan, const SlabView& slab, const void* table,
                       TileRange tiles, float* partials) {
  NarrowShape shape{};
  shape.table = static_cast<const std::byte*>(table);
  shape.b = static_cast<const float*>(slab.data);
  shape.partials = partials;
  shape.rows = slab.rows;
  shape.pitch = slab.pitch;
  shape.cols = slab.cols;
  shape.first_tile = tiles.first;
  shape.tiles = tiles.count;
  shape.batch_rows = spec.batch_rows;
  shape.first_row = slab.first_row;
  shape.tile_rows = static_cast<std::int32_t>(plan.tile_rows);
  shape.tiles_per_batch = plan.tiles_per_batch;
  shape.zero_row = plan.cluster * plan.boxes * plan.box_rows;
  shape.tile_stride = static_cast<std::int32_t>(round_up(shape.zero_row + 1, 4));
  shape.cluster = plan.cluster;
  shape.slots = static_cast<std::int32_t>(plan.slots());
  shape.entries = plan.entries;
  shape.table_bytes = static_cast<std::int32_t>(plan.table_bytes_per_tile());
  shape.entry_bytes = static_cast<std::int32_t>(plan.entry_bytes);
  shape.dense_bytes = static_cast<std::int32_t>(plan.dense_bytes());
  shape.offset_bytes = static_cast<std::int32_t>(plan.offset_bytes());
  return shape;
}

template <int kColumns>
cudaError_t launch(NarrowShape shape, std::int64_t* blocks, cudaStream_t stream) {
  const std::int64_t tile_bytes = shape.table_bytes + std::int64_t{shape.tile_stride} * 4 * kColumns;
  const std::int64_t sum_bytes = std::int64_t{shape.cluster} * shape.slots * 4 * kColumns;
  shape.tiles_at_once =
      static_cast<std::int32_t>(std::clamp<std::int64_t>((kSharedBytes - sum_bytes) / tile_bytes, 1, kMostTilesAtOnce));
  *blocks = std::min(kMostBlocks, divide_up(shape.tiles, shape.tiles_at_once));
  const auto shared = static_cast<std::size_t>(shape.tiles_at_once * tile_bytes + sum_bytes);
  const cudaError_t status = cudaFuncSetAttribute(narrow_kernel<kColumns>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(shared));
  if (status != cudaSuccess) return status;
  // More columns than a grid holds take another launch: a block's sums stay those of its own columns.
  for (; shape.first_col < shape.cols; shape.first_col += kMaxGridY * kColumns) {
    const dim3 grid(static_cast<unsigned>(*blocks),
                    static_cast<unsigned>(blocks_for(shape.cols - shape.first_col, kColumns, kMaxGridY)));
    narrow_kernel<kColumns><<<grid, kThreads, shared, stream>>>(shape);
    if (const cudaError_t launched = cudaGetLastError(); launched != cudaSuccess) return launched;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t strip_sketch_narrow(const SketchSpec& spec, const StripPlan& plan, const SlabView& slab, const void* table,
                                TileRange tiles, float* partials, const SketchView<float>& sketch,
                                cudaStream_t stream) {
  if (slab.rows == 0 || slab.cols == 0) return cudaSuccess;
  const NarrowShape shape = make_shape(spec, plan, slab, table, tiles, partials);
  std::int64_t blocks = 0;
  // Four columns at a time read the tables once; their sums fit shared memory beside them up to d = 4096.
  const bool four = slab.cols > 1 && plan.cluster * plan.slots() <= 4096;
  const cudaError_t status = four ? launch<4>(shape, &blocks, stream) : launch<1>(shape, &blocks, stream);
  if (status != cudaSuccess) return status;
  const FinishShape finish{partials,     sketch.data,  sketch.rows,  sketch.cols,
                           sketch.pitch, plan.slots(), plan.buckets, static_cast<std::int32_t>(blocks),
                           plan.cluster, plan.parts};
  finish_narrow_kernel<<<static_cast<unsigned>(divide_up(sketch.rows * sketch.cols, 32)), dim3(32, kFinishLanes), 0,
                         stream>>>(finish);
  return cudaGetLastError();
}

std::int64_t narrow_partial_floats(const StripPlan& plan, std::int64_t r) {
  return kMostBlocks * plan.cluster * plan.slots() * r;
}

}  // namespace tallsketch::cuda
