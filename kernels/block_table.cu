// The entry tables of the strip engine for BlockPerm with interleaved input blocks: a thread shuffles the entries of
// one group of sketch rows in shared memory, and the sketch rows take theirs in order. Layout of a tile's table:
// table_layout.h.
#include "kernels/block_table.h"

#include <algorithm>

#include "kernels/strip_engine.h"
#include "kernels/table_launchers.h"
#include "kernels/table_layout.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostTilesPerBlock = 8;
constexpr std::int64_t kSharedBytes = 45056;  // of a block, so that five of them hide each other's latency on an SM

struct BlockTableShape {
  SketchSpec spec;
  std::int64_t first_tile, tiles;
  std::int32_t tiles_per_block;
  std::int32_t tile_rows, batches_per_tile, tiles_per_batch;
  std::int32_t cluster, groups, entries;  // groups of slots
  std::int32_t buckets, parts;
  std::int32_t count;  // rows of a bucket in a batch
  std::int32_t deal_groups, deal_buckets, deal_rows;
  std::int32_t zero_row;
  std::int32_t sign_stride, element_stride, batch_stride, tile_bytes;
};

/// First row of the first batch that a tile holds, or holds a part of.
__device__ std::int64_t first_batch_row(const BlockTableShape& shape, std::int64_t tile) {
  return first_row_of_tile(tile, shape.tile_rows, shape.tiles_per_batch, shape.spec.batch_rows) /
         shape.spec.batch_rows * shape.spec.batch_rows;
}

/// Shared memory of a tile: sign draws (zeta, sign_stride), then elements [batch][place][group].
struct TileShared {
  RandomWords* signs;
  std::uint16_t* elements;
};
__device__ TileShared tile_shared(const BlockTableShape& shape, std::byte* shared, int tile) {
  std::byte* const own = shared + tile * shape.tile_bytes;
  auto* const signs = reinterpret_cast<RandomWords*>(own);
  return {signs, reinterpret_cast<std::uint16_t*>(signs + shape.spec.zeta * shape.sign_stride)};
}

/// One group's entries of a batch, position * 2 + sign, in the order of its neighbours, then shuffled.
__device__ void shuffle_group(const BlockTableShape& shape, std::int64_t row0, int batch_of_tile, int group,
                              const RandomWords* signs, std::uint16_t* elements) {
  const SketchSpec& spec = shape.spec;
  const int stride = shape.element_stride;
  const auto blocks = static_cast<int>(block_count(spec)), rows = static_cast<int>(spec.batch_rows);
  const int u = group % spec.block_nnz;
  const int sign0 = static_cast<int>(row0 & 127) + batch_of_tile * rows;
  int element = 0;
  auto neighbour = static_cast<std::int64_t>(group / spec.block_nnz);
  for (int l = 0; l < spec.kappa; ++l) {
    neighbour = input_block(spec, neighbour, 0);
    const RandomWords* const own_signs = signs + (l * spec.block_nnz + u) * shape.sign_stride;
    for (int position = static_cast<int>(neighbour); position < rows; position += blocks, ++element) {
      const int from_draw0 = sign0 + position;
      elements[element * stride] =
          static_cast<std::uint16_t>(position * 2 + (sign_bit(own_signs[from_draw0 >> 7], from_draw0) ? 1 : 0));
    }
  }
  const std::int64_t batch = row0 / spec.batch_rows + batch_of_tile;
  RandomWords words{};
  std::uint32_t have = 0xffffffffU;
  for (auto j = static_cast<std::uint32_t>(shape.deal_rows - 1); j >= 1; --j) {
    if (j >> 2 != have) words = shuffle_words(spec, batch, group, have = j >> 2);
    const auto r = static_cast<int>(shuffle_draw(words.word[j & 3], j));
    const std::uint16_t moved = elements[static_cast<int>(j) * stride];
    elements[static_cast<int>(j) * stride] = elements[r * stride];
    elements[r * stride] = moved;
  }
}

/// Where one entry of one slot comes from, the same in every tile.
struct SlotEntry {
  int batch;    // of the tile; -1: none, the row of zeros
  int element;  // of the batch, in shared memory
};

__device__ SlotEntry slot_entry(const BlockTableShape& shape, int cta, int slot, int entry) {
  const int part = slot / shape.buckets, sketch_row = cta * shape.buckets + slot % shape.buckets;
  const int ordinal = part * shape.entries + entry;  // among the entries of the sketch row
  const int batch = ordinal / shape.count;
  if (part >= shape.parts || batch >= shape.batches_per_tile) return {-1, 0};
  const int place = sketch_row % shape.deal_buckets * shape.count + ordinal % shape.count;
  return {batch, batch * shape.batch_stride + place * shape.element_stride + sketch_row / shape.deal_buckets};
}

/// A CTA makes the tables of a few tiles: signs, shuffles, then the slots, two neighbouring ones to a 32-bit store.
__global__ void __launch_bounds__(kThreads)
    fill_block_table_kernel(BlockTableShape shape, std::uint32_t* __restrict__ table) {
  extern __shared__ __align__(16) std::byte block_shared[];
  const SketchSpec& spec = shape.spec;
  const std::int64_t tile0 = static_cast<std::int64_t>(blockIdx.x) * shape.tiles_per_block;
  const auto tiles = static_cast<int>(min(static_cast<std::int64_t>(shape.tiles_per_block), shape.tiles - tile0));

  const int signs_per_tile = spec.zeta * shape.sign_stride;
  for (int i = threadIdx.x; i < tiles * signs_per_tile; i += kThreads) {
    const int tile = i / signs_per_tile, inside = i % signs_per_tile;
    const std::int64_t draw =
        (first_batch_row(shape, shape.first_tile + tile0 + tile) >> 7) + inside % shape.sign_stride;
    tile_shared(shape, block_shared, tile).signs[inside] = sign_words(spec, draw << 7, inside / shape.sign_stride);
  }
  __syncthreads();
  const int shuffles_per_tile = shape.batches_per_tile * shape.deal_groups;
  for (int i = threadIdx.x; i < tiles * shuffles_per_tile; i += kThreads) {
    const int tile = i / shuffles_per_tile, batch = i % shuffles_per_tile / shape.deal_groups;
    const int group = i % shape.deal_groups;
    const TileShared own = tile_shared(shape, block_shared, tile);
    shuffle_group(shape, first_batch_row(shape, shape.first_tile + tile0 + tile), batch, group, own.signs,
                  own.elements + batch * shape.batch_stride + group);
  }
  __syncthreads();

  const int cta_words = shape.groups * shape.entries * kSlotsPerGroup / 2;
  const int tile_words = shape.cluster * cta_words;
  for (int word = threadIdx.x; word < tile_words; word += kThreads) {
    const auto [cta, slot, entry] = table_word(word, cta_words, shape.entries);
    const SlotEntry two[2] = {slot_entry(shape, cta, slot, entry), slot_entry(shape, cta, slot + 1, entry)};
    std::uint32_t* out = table + tile0 * tile_words + word;
    for (int tile = 0; tile < tiles; ++tile, out += tile_words) {
      const std::uint16_t* const elements = tile_shared(shape, block_shared, tile).elements;
      const auto rows_before = static_cast<int>((shape.first_tile + tile0 + tile) % shape.tiles_per_batch) *
                               shape.tile_rows;  // of the batch, where it fills several tiles
      std::uint32_t packed = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        auto value = static_cast<std::uint32_t>(shape.zero_row) * 2;
        if (two[half].batch >= 0) {
          // Rows of the batch that lie before the tile wrap to large numbers, and are as absent as those behind it.
          const auto batch_row = two[half].batch * static_cast<int>(spec.batch_rows) - rows_before;
          const std::uint32_t own = elements[two[half].element] + static_cast<std::uint32_t>(batch_row * 2);
          if (own < static_cast<std::uint32_t>(shape.tile_rows) * 2) value = own;
        }
        packed |= value << (16 * half);
      }
      *out = packed;
    }
  }
}

}  // namespace

cudaError_t fill_block_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, void* table,
                             cudaStream_t stream) {
  const BlockTableLayout layout = block_table_layout(spec, plan);
  BlockTableShape shape{};
  shape.spec = spec;
  shape.first_tile = tiles.first;
  shape.tiles = tiles.count;
  shape.tiles_per_block =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(kSharedBytes / layout.tile_bytes, 1, kMostTilesPerBlock));
  shape.tile_rows = static_cast<std::int32_t>(plan.tile_rows);
  shape.batches_per_tile = plan.batches_per_tile;
  shape.tiles_per_batch = plan.tiles_per_batch;
  shape.cluster = plan.cluster;
  shape.groups = static_cast<std::int32_t>(plan.groups());
  shape.entries = plan.entries;
  shape.buckets = static_cast<std::int32_t>(plan.buckets);
  shape.parts = plan.parts;
  shape.count = static_cast<std::int32_t>(deal_rows_per_bucket(spec));
  shape.deal_groups = static_cast<std::int32_t>(group_count(spec));
  shape.deal_buckets = static_cast<std::int32_t>(group_buckets(spec));
  shape.deal_rows = static_cast<std::int32_t>(deal_rows(spec));
  shape.zero_row = plan.cluster * plan.boxes * plan.box_rows;
  shape.sign_stride = static_cast<std::int32_t>(layout.sign_stride);
  shape.element_stride = static_cast<std::int32_t>(layout.element_stride);
  shape.batch_stride = static_cast<std::int32_t>(layout.batch_stride);
  shape.tile_bytes = static_cast<std::int32_t>(layout.tile_bytes);
  const auto shared = static_cast<std::size_t>(shape.tiles_per_block * layout.tile_bytes);
  if (const cudaError_t status = cudaFuncSetAttribute(
          fill_block_table_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      status != cudaSuccess) {
    return status;
  }
  const auto blocks = static_cast<unsigned>(divide_up(tiles.count, shape.tiles_per_block));
  fill_block_table_kernel<<<blocks, kThreads, shared, stream>>>(shape, static_cast<std::uint32_t*>(table));
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
