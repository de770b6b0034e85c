// The entry tables of the strip engine: for every tile, CTA and slot, which rows are added to it. A keyed bijection
// gives bucket -> row without sorting, so every entry is computed on its own. Layout of a tile's table, 16-bit entries:
// [CTA][group][entry of a slot][slot of the group].
#include "kernels/block_table.h"
#include "kernels/sketch_rule.h"
#include "kernels/strip_engine.h"
#include "kernels/table_launchers.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kTilesPerBlock = 8;  // shares a thread's slot arithmetic; its keys and signs fit 48 KiB of shared memory

/// A bijection's keys in shared memory: eight words, so that they load as two vectors.
struct alignas(16) RoundKeys {
  std::uint32_t key[8];
};

struct TableShape {
  SketchSpec spec;
  std::int64_t first_tile, tiles;
  std::int32_t tile_rows, batches_per_tile, tiles_per_batch;
  std::int32_t cluster, groups, entries;
  std::uint32_t buckets;         // of a CTA
  std::int32_t parts, zero_row;  // the row of zeros, in rows of the tile
  std::uint32_t block_size;
  std::uint32_t count;       // rows of a bucket in a whole batch
  std::int32_t sign_stride;  // 128-row draws of a block in shared memory
};

/// What one entry of one slot is about, the same in every tile.
struct SlotEntry {
  bool real;           // otherwise the row of zeros
  std::int32_t batch;  // of the tile
  std::int32_t block;
  std::uint32_t image;  // of the batch's bijection
};

__device__ SlotEntry slot_entry(const TableShape& shape, int cta, int slot, int entry) {
  const int buckets = static_cast<int>(shape.buckets), block_size = static_cast<int>(shape.block_size);
  const int count = static_cast<int>(shape.count);
  const int part = slot / buckets;
  const int sketch_row = cta * buckets + slot % buckets;
  const int ordinal = part * shape.entries + entry;  // among the entries of the sketch row
  const int batch = ordinal / count;
  const int block = sketch_row / block_size;
  return {part < shape.parts && batch < shape.batches_per_tile, batch, block,
          static_cast<std::uint32_t>(sketch_row % block_size * count + ordinal % count)};
}

__device__ std::int64_t tile_row(const TableShape& shape, std::int64_t tile) {
  return first_row_of_tile(tile, shape.tile_rows, shape.tiles_per_batch, shape.spec.batch_rows);
}

/// A CTA makes the tables of kTilesPerBlock tiles: keys and signs first; then each thread works out its slots once and
/// goes through the tiles with them, two neighbouring slots to a 32-bit store.
__global__ void __launch_bounds__(kThreads)
    fill_strip_table_kernel(TableShape shape, std::uint32_t* __restrict__ table) {
  extern __shared__ RandomWords shared_words[];
  __shared__ std::uint32_t first_sign[kTilesPerBlock], rows_before[kTilesPerBlock];
  const int zeta = shape.spec.zeta;
  const int keys_per_tile = shape.batches_per_tile * zeta, signs_per_tile = zeta * shape.sign_stride;
  RandomWords* const signs = shared_words;  // [tile][block][128-row draw]
  auto* const keys = reinterpret_cast<RoundKeys*>(signs + kTilesPerBlock * signs_per_tile);  // [tile][batch][block]
  const std::int64_t tile0 = static_cast<std::int64_t>(blockIdx.x) * kTilesPerBlock;
  const auto tiles = static_cast<int>(min(static_cast<std::int64_t>(kTilesPerBlock), shape.tiles - tile0));

  if (static_cast<int>(threadIdx.x) < tiles) {
    const std::int64_t row0 = tile_row(shape, shape.first_tile + tile0 + threadIdx.x);
    first_sign[threadIdx.x] = static_cast<std::uint32_t>(row0 & 127);
    rows_before[threadIdx.x] =
        shape.tiles_per_batch == 1 ? 0 : static_cast<std::uint32_t>(row0 % shape.spec.batch_rows);
  }
  for (int i = threadIdx.x; i < tiles * keys_per_tile; i += kThreads) {
    const int inside = i % keys_per_tile;
    const std::int64_t batch = tile_row(shape, shape.first_tile + tile0 + i / keys_per_tile) / shape.spec.batch_rows;
    const BatchDeal deal = make_batch_deal(shape.spec, batch + inside / zeta, inside % zeta);
    for (int round = 0; round < KeyedBijection::kRounds; ++round) keys[i].key[round] = deal.bijection.key[round];
  }
  for (int i = threadIdx.x; i < tiles * signs_per_tile; i += kThreads) {
    const int inside = i % signs_per_tile;
    const std::int64_t draw =
        (tile_row(shape, shape.first_tile + tile0 + i / signs_per_tile) >> 7) + inside % shape.sign_stride;
    signs[i] = sign_words(shape.spec, draw << 7, inside / shape.sign_stride);
  }
  __syncthreads();

  BatchDeal deal = make_batch_deal(shape.spec, RandomWords{});
  const int cta_words = shape.groups * shape.entries * kSlotsPerGroup / 2;
  const int tile_words = shape.cluster * cta_words;
  for (int word = threadIdx.x; word < tile_words; word += kThreads) {
    const int cta = word / cta_words, inside = word % cta_words;
    const int group = inside / (shape.entries * kSlotsPerGroup / 2);
    const int entry = inside / (kSlotsPerGroup / 2) % shape.entries;
    SlotEntry two[2];
    for (int half = 0; half < 2; ++half) {
      const int slot = group * kSlotsPerGroup + inside % (kSlotsPerGroup / 2) * 2 + half;
      two[half] = slot_entry(shape, cta, slot, entry);
    }
    std::uint32_t* out = table + tile0 * tile_words + word;
    for (int tile = 0; tile < tiles; ++tile, out += tile_words) {
      std::uint32_t packed = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const SlotEntry& slot = two[half];
        std::uint32_t value = static_cast<std::uint32_t>(shape.zero_row) * 2;
        if (slot.real) {
          const RoundKeys& own = keys[tile * keys_per_tile + slot.batch * zeta + slot.block];
#pragma unroll
          for (int round = 0; round < KeyedBijection::kRounds; ++round) deal.bijection.key[round] = own.key[round];
          // Rows of the batch that lie before the tile wrap to large numbers, and are as absent as those behind it.
          const std::uint32_t position = position_of_image(deal, slot.image) - rows_before[tile];
          if (position < static_cast<std::uint32_t>(shape.tile_rows)) {
            const std::uint32_t row = static_cast<std::uint32_t>(slot.batch) * deal.rows + position;
            const std::uint32_t from_draw0 = first_sign[tile] + row;
            const RandomWords& words =
                signs[tile * signs_per_tile + slot.block * shape.sign_stride + static_cast<int>(from_draw0 >> 7)];
            value = row * 2 + (sign_bit(words, from_draw0) ? 1 : 0);
          }
        }
        packed |= value << (16 * half);
      }
      *out = packed;
    }
  }
}

}  // namespace

cudaError_t fill_strip_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, void* table,
                             cudaStream_t stream) {
  if (tiles.count == 0) return cudaSuccess;
  if (plan.tail_capacity > 0) return fill_tail_table(spec, plan, tiles, table, stream);
  if (spec.family == SketchFamily::kBlockPerm) return fill_block_table(spec, plan, tiles, table, stream);
  TableShape shape{};
  shape.spec = spec;
  shape.first_tile = tiles.first;
  shape.tiles = tiles.count;
  shape.tile_rows = static_cast<std::int32_t>(plan.tile_rows);
  shape.batches_per_tile = plan.batches_per_tile;
  shape.tiles_per_batch = plan.tiles_per_batch;
  shape.cluster = plan.cluster;
  shape.groups = static_cast<std::int32_t>(plan.slots() / kSlotsPerGroup);
  shape.entries = plan.entries;
  shape.buckets = static_cast<std::uint32_t>(plan.buckets);
  shape.parts = plan.parts;
  shape.zero_row = plan.cluster * plan.boxes * plan.box_rows;
  shape.block_size = static_cast<std::uint32_t>(spec.d / spec.zeta);
  shape.count = static_cast<std::uint32_t>(fixed_rows_per_bucket(spec));
  shape.sign_stride = static_cast<std::int32_t>(plan.tile_rows / 128 + 2);
  const std::size_t shared =
      static_cast<std::size_t>(kTilesPerBlock * plan.batches_per_tile * spec.zeta) * sizeof(RoundKeys) +
      static_cast<std::size_t>(kTilesPerBlock * spec.zeta * shape.sign_stride) * sizeof(RandomWords);
  if (const cudaError_t status = cudaFuncSetAttribute(
          fill_strip_table_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      status != cudaSuccess) {
    return status;  // beyond 48 KiB only for d = 8192 with large zeta
  }
  const auto blocks = static_cast<unsigned>((tiles.count + kTilesPerBlock - 1) / kTilesPerBlock);
  fill_strip_table_kernel<<<blocks, kThreads, shared, stream>>>(shape, static_cast<std::uint32_t*>(table));
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
