// The entry tables of the strip engine: for every tile, CTA and slot, which rows are added to it. A keyed bijection
// gives bucket -> row without sorting, so every entry is computed on its own. Layout of a tile's table: table_layout.h.
#include "kernels/block_table.h"
#include "kernels/sketch_rule.h"
#include "kernels/strip_engine.h"
#include "kernels/table_launchers.h"
#include "kernels/table_layout.h"
#include "kernels/tma.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
// Shares a thread's slot arithmetic. Keys and signs fit 48 KiB of shared memory, but for A in half precision with many
// sketch rows and large zeta (d = 3900, zeta = 15: 49 920 bytes).
constexpr int kTilesPerBlock = 8;

/// A bijection's keys from shared memory.
__device__ InverseKeys load_keys(std::uint32_t address) {
  InverseKeys keys;
  for (int half = 0; half < 2; ++half) {
    std::uint32_t* const to = keys.word + 4 * half;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address + static_cast<std::uint32_t>(16 * half)));
  }
  return keys;
}

__device__ std::uint32_t load_word(std::uint32_t address) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}

struct TableShape {
  SketchSpec spec;
  std::int64_t first_tile, tiles;
  std::int32_t tile_rows, batches_per_tile, tiles_per_batch;
  std::int32_t cluster, groups, entries;
  std::int32_t first_block;  // of S that the launch takes
  std::uint32_t buckets;     // of a CTA
  std::int32_t parts;
  std::uint32_t zero_entry;  // points at the row of zeros
  std::uint32_t block_size;
  std::uint32_t count;                  // rows of a bucket in a whole batch
  std::int32_t sign_stride;             // 128-row draws of a block in shared memory
  std::uint32_t key_bytes, sign_bytes;  // of a tile in shared memory
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

/// Where a tile begins: inside a draw of 128 signs, and inside its batch.
struct TileStart {
  std::uint32_t first_sign, rows_before;
};

/// A slot's entry on its way through the tiles: shared-memory addresses of its keys and signs, moved on from tile to
/// tile. Addresses are kept as such, because the compiler works them out anew for every tile otherwise: 103
/// instructions an entry instead of 79.
struct EntrySource {
  bool real;
  std::uint32_t image;
  std::uint32_t batch_row;  // of the batch in the tile
  std::uint32_t keys, signs;
};

__device__ EntrySource entry_source(const TableShape& shape, const SlotEntry& slot, std::uint32_t keys,
                                    std::uint32_t signs) {
  const int zeta = shape.spec.zeta;
  return {slot.real, slot.image, static_cast<std::uint32_t>(slot.batch * static_cast<int>(shape.spec.batch_rows)),
          keys + static_cast<std::uint32_t>((slot.batch * zeta + slot.block) * static_cast<int>(sizeof(InverseKeys))),
          signs + static_cast<std::uint32_t>(slot.block * shape.sign_stride * static_cast<int>(sizeof(RandomWords)))};
}

/// The entry of the next tile: row of the tile * 2 + sign.
__device__ std::uint32_t entry_value(const TableShape& shape, const BatchDeal& deal, EntrySource& source,
                                     const TileStart& start) {
  std::uint32_t value = shape.zero_entry;
  if (!source.real) return value;
  // Rows of the batch that lie before the tile wrap to large numbers, and are as absent as those behind it.
  const std::uint32_t position =
      bijection_backward(deal.bijection, load_keys(source.keys), source.image) - start.rows_before;
  const std::uint32_t row = source.batch_row + position;
  if (position < static_cast<std::uint32_t>(shape.tile_rows)) {
    const std::uint32_t from_draw0 = start.first_sign + row;
    const std::uint32_t signs = load_word(source.signs + (from_draw0 >> 5) * 4);
    value = row * 2 + ((signs >> (from_draw0 & 31)) & 1);
  }
  source.keys += shape.key_bytes;
  source.signs += shape.sign_bytes;
  return value;
}

/// A CTA makes the tables of kTilesPerBlock tiles: keys and signs first; then each thread works out its slots once and
/// goes through the tiles with them, two neighbouring slots to a 32-bit store.
__global__ void __launch_bounds__(kThreads)
    fill_strip_table_kernel(TableShape shape, std::uint32_t* __restrict__ table) {
  extern __shared__ RandomWords shared_words[];
  __shared__ TileStart starts[kTilesPerBlock];
  const int zeta = shape.spec.zeta;
  const int keys_per_tile = shape.batches_per_tile * zeta, signs_per_tile = zeta * shape.sign_stride;
  RandomWords* const signs = shared_words;  // [tile][block][128-row draw]
  auto* const keys = reinterpret_cast<InverseKeys*>(signs + kTilesPerBlock * signs_per_tile);  // [tile][batch][block]
  const std::int64_t tile0 = static_cast<std::int64_t>(blockIdx.x) * kTilesPerBlock;
  const auto tiles = static_cast<int>(min(static_cast<std::int64_t>(kTilesPerBlock), shape.tiles - tile0));

  if (static_cast<int>(threadIdx.x) < tiles) {
    const std::int64_t row0 = tile_row(shape, shape.first_tile + tile0 + threadIdx.x);
    starts[threadIdx.x] = {static_cast<std::uint32_t>(row0 & 127),
                           shape.tiles_per_batch == 1 ? 0 : static_cast<std::uint32_t>(row0 % shape.spec.batch_rows)};
  }
  for (int i = threadIdx.x; i < tiles * keys_per_tile; i += kThreads) {
    const int inside = i % keys_per_tile;
    const std::int64_t batch = tile_row(shape, shape.first_tile + tile0 + i / keys_per_tile) / shape.spec.batch_rows;
    keys[i] =
        inverse_keys(make_batch_deal(shape.spec, batch + inside / zeta, shape.first_block + inside % zeta).bijection);
  }
  for (int i = threadIdx.x; i < tiles * signs_per_tile; i += kThreads) {
    const int inside = i % signs_per_tile;
    const std::int64_t draw =
        (tile_row(shape, shape.first_tile + tile0 + i / signs_per_tile) >> 7) + inside % shape.sign_stride;
    signs[i] = sign_words(shape.spec, draw << 7, shape.first_block + inside / shape.sign_stride);
  }
  __syncthreads();

  const BatchDeal deal = make_batch_deal(shape.spec, RandomWords{});  // for its size; every batch has keys of its own
  const int cta_words = shape.groups * shape.entries * kSlotsPerGroup / 2;
  const int tile_words = shape.cluster * cta_words;
  for (int word = threadIdx.x; word < tile_words; word += kThreads) {
    const auto [cta, slot, entry] = table_word(word, cta_words, shape.entries);
    EntrySource two[2];
    for (int half = 0; half < 2; ++half) {
      two[half] =
          entry_source(shape, slot_entry(shape, cta, slot + half, entry), shared_address(keys), shared_address(signs));
    }
    std::uint32_t* out = table + tile0 * tile_words + word;
    for (int tile = 0; tile < tiles; ++tile, out += tile_words) {
      const TileStart start = starts[tile];
      const std::uint32_t first = entry_value(shape, deal, two[0], start);
      const std::uint32_t second = entry_value(shape, deal, two[1], start);
      *out = first | (second << 16);
    }
  }
}

}  // namespace

cudaError_t fill_strip_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, std::int32_t first_block,
                             void* table, cudaStream_t stream) {
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
  shape.first_block = first_block;
  shape.buckets = static_cast<std::uint32_t>(plan.buckets);
  shape.parts = plan.parts;
  shape.zero_entry = static_cast<std::uint32_t>(plan.cluster * plan.boxes * plan.box_rows) * 2;
  shape.block_size = static_cast<std::uint32_t>(spec.d / spec.zeta);
  shape.count = static_cast<std::uint32_t>(fixed_rows_per_bucket(spec));
  shape.sign_stride = static_cast<std::int32_t>(plan.tile_rows / 128 + 2);
  shape.key_bytes = static_cast<std::uint32_t>(plan.batches_per_tile * spec.zeta) * sizeof(InverseKeys);
  shape.sign_bytes = static_cast<std::uint32_t>(spec.zeta * shape.sign_stride) * sizeof(RandomWords);
  const std::size_t shared = std::size_t{kTilesPerBlock} * (shape.key_bytes + shape.sign_bytes);
  if (const cudaError_t status = cudaFuncSetAttribute(
          fill_strip_table_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      status != cudaSuccess) {
    return status;
  }
  const auto blocks = static_cast<unsigned>((tiles.count + kTilesPerBlock - 1) / kTilesPerBlock);
  fill_strip_table_kernel<<<blocks, kThreads, shared, stream>>>(shape, static_cast<std::uint32_t*>(table));
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
