// The entry tables of the strip engine for the independent hash: the entries of a tile are dealt to its sketch rows by
// counting, in shared memory, and sorted by row, so that the order of summation is fixed. Layout of a tile's table, for
// each CTA: 16-bit entries [group][entry of a slot][slot of the group]; 16-bit tail offsets of the groups; 32-bit
// tails, slot of the group * 2^16 + entry.
#include "kernels/tail_table.h"

#include "kernels/sketch_rule.h"
#include "kernels/table_launchers.h"

#include <cub/block/block_scan.cuh>

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 5;  // many small blocks hide the latency of a dozen barriers a tile

struct TailShape {
  SketchSpec spec;
  TailTableLayout layout;
  std::int64_t first_tile;
  std::int32_t d, zeta, tile_rows, cluster, groups, slots, buckets, parts, entries;
  std::int32_t zero_row, tail_capacity;
  std::int64_t entry_bytes, dense_bytes, offset_bytes;
};

/// A tile's arrays in shared memory; their lengths: tail_table.h.
struct TailShared {
  RandomWords* signs;          // [block][128-row draw]
  std::uint32_t* counts;       // entries of a sketch row, then cursors, at last the tails of a slot
  std::uint32_t* first;        // of a sketch row in the list
  std::uint32_t* tail_first;   // of a slot among the tails
  std::uint16_t* sketch_rows;  // [row][block]
  std::uint16_t* unsorted;     // entries by sketch row
  std::uint16_t* list;         // the same, by row in each sketch row
};
__device__ TailShared tail_shared(const TailTableLayout& layout, std::byte* shared) {
  return {reinterpret_cast<RandomWords*>(shared),
          reinterpret_cast<std::uint32_t*>(shared + layout.counts),
          reinterpret_cast<std::uint32_t*>(shared + layout.first),
          reinterpret_cast<std::uint32_t*>(shared + layout.tail_first),
          reinterpret_cast<std::uint16_t*>(shared + layout.sketch_rows),
          reinterpret_cast<std::uint16_t*>(shared + layout.unsorted),
          reinterpret_cast<std::uint16_t*>(shared + layout.list)};
}

using Scan = cub::BlockScan<std::uint32_t, kThreads>;
using BlockBorders = std::uint32_t[kMaxStripZeta + 1];
static_assert(sizeof(Scan::TempStorage) + sizeof(BlockBorders) <= kTailStaticBytes);

/// first[i] = sum of counts[0 .. i) for i <= count; every thread of the block calls it.
__device__ void exclusive_sums(const std::uint32_t* counts, std::uint32_t* first, int count) {
  __shared__ Scan::TempStorage storage;
  const int each = (count + kThreads - 1) / kThreads;
  const int begin = min(count, static_cast<int>(threadIdx.x) * each), end = min(count, begin + each);
  std::uint32_t mine = 0, before = 0, total = 0;
  for (int i = begin; i < end; ++i) mine += counts[i];
  Scan(storage).ExclusiveSum(mine, before, total);
  __syncthreads();
  for (int i = begin; i < end; ++i) {
    const std::uint32_t own = counts[i];
    first[i] = before;
    before += own;
  }
  if (threadIdx.x == 0) first[count] = total;
  __syncthreads();
}

/// Entries of the sketch row of `slot` beyond those that its parts hold, that fall to this slot: every parts-th.
struct TailOfSlot {
  std::uint32_t first, count;  // list[first], list[first + parts], ...
};
__device__ TailOfSlot tail_of_slot(const TailShape& shape, const std::uint32_t* first, int cta, int slot) {
  const int part = slot / shape.buckets;
  const int sketch_row = cta * shape.buckets + slot % shape.buckets;
  if (part >= shape.parts || sketch_row >= shape.d) return {0, 0};
  const auto held = static_cast<std::uint32_t>(shape.parts * shape.entries + part);
  const std::uint32_t count = first[sketch_row + 1] - first[sketch_row];
  if (count <= held) return {0, 0};
  return {first[sketch_row] + held,
          (count - held + static_cast<std::uint32_t>(shape.parts) - 1) / static_cast<std::uint32_t>(shape.parts)};
}

/// The sketch row of every entry, and the number of each one's; the signs on the way.
__device__ void count_entries(const TailShape& shape, std::int64_t row0, const TailShared& own) {
  __shared__ BlockBorders block_first;  // the rule's, once: they cost 64-bit divisions
  if (static_cast<int>(threadIdx.x) <= shape.zeta) {
    block_first[threadIdx.x] = static_cast<std::uint32_t>(
        static_cast<int>(threadIdx.x) < shape.zeta ? block_begin(shape.spec, static_cast<std::int32_t>(threadIdx.x))
                                                   : shape.spec.d);
  }
  for (int i = threadIdx.x; i < shape.d; i += kThreads) own.counts[i] = 0;
  const int sign_stride = shape.layout.sign_stride;
  for (int i = threadIdx.x; i < shape.zeta * sign_stride; i += kThreads) {
    own.signs[i] = sign_words(shape.spec, ((row0 >> 7) + i % sign_stride) << 7, i / sign_stride);
  }
  __syncthreads();
  const int pairs = (shape.zeta + 1) / 2;  // of blocks: they share a draw
  for (int i = threadIdx.x; i < shape.tile_rows * pairs; i += kThreads) {
    const int row = i / pairs, block0 = i % pairs * 2;
    const RandomWords words = independent_words(shape.spec, row0 + row, block0);
    for (int block = block0; block < min(shape.zeta, block0 + 2); ++block) {
      const std::uint32_t sketch_row =
          block_first[block] + independent_bucket(words, block, block_first[block + 1] - block_first[block]);
      own.sketch_rows[row * shape.zeta + block] = static_cast<std::uint16_t>(sketch_row);
      atomicAdd(own.counts + sketch_row, 1U);
    }
  }
}

/// Fills the list: the entries (row * 2 + sign) of sketch row after sketch row, each one's by row.
__device__ void sort_entries(const TailShape& shape, std::int64_t row0, const TailShared& own) {
  for (int i = threadIdx.x; i < shape.d; i += kThreads) own.counts[i] = own.first[i];
  __syncthreads();
  const int total = shape.tile_rows * shape.zeta;
  for (int i = threadIdx.x; i < total; i += kThreads) {
    const int row = i / shape.zeta, block = i % shape.zeta;
    const std::int64_t from_draw0 = (row0 & 127) + row;
    const bool negative =
        sign_bit(own.signs[block * shape.layout.sign_stride + static_cast<int>(from_draw0 >> 7)], from_draw0);
    own.unsorted[atomicAdd(own.counts + own.sketch_rows[i], 1U)] =
        static_cast<std::uint16_t>(row * 2 + (negative ? 1 : 0));
  }
  __syncthreads();
  // Every entry finds its place among the few of its bucket: those of smaller rows come before it.
  for (int i = threadIdx.x; i < total; i += kThreads) {
    const std::uint32_t begin = own.first[own.sketch_rows[i]], end = own.first[own.sketch_rows[i] + 1];
    const int row = i / shape.zeta;
    std::uint32_t place = begin;
    std::uint16_t entry = 0;
    for (std::uint32_t k = begin; k < end; ++k) {
      const std::uint16_t value = own.unsorted[k];
      place += value >> 1 < row ? 1 : 0;
      if (value >> 1 == row) entry = value;
    }
    own.list[place] = entry;
  }
}

/// The entries of a CTA's slots, filled up with the row of zeros. dense  out (slots * entries)
__device__ void write_dense(const TailShape& shape, int cta, const TailShared& own, std::uint16_t* dense) {
  for (int i = threadIdx.x; i < shape.slots * shape.entries; i += kThreads) {
    const int slot = i / (shape.entries * kSlotsPerGroup) * kSlotsPerGroup + i % kSlotsPerGroup;
    const int entry = i / kSlotsPerGroup % shape.entries;
    const int part = slot / shape.buckets, sketch_row = cta * shape.buckets + slot % shape.buckets;
    auto value = static_cast<std::uint16_t>(shape.zero_row * 2);
    if (part < shape.parts && sketch_row < shape.d) {
      const std::uint32_t at = own.first[sketch_row] + static_cast<std::uint32_t>(part * shape.entries + entry);
      if (at < own.first[sketch_row + 1]) value = own.list[at];
    }
    dense[i] = value;
  }
}

/// The others. offsets  out (groups + 1); tails  out (tail_capacity)
__device__ void write_tails(const TailShape& shape, int cta, const TailShared& own, std::uint16_t* offsets,
                            std::uint32_t* tails) {
  const std::uint32_t* const tail_first = own.tail_first + cta * shape.slots;
  const std::uint32_t begin = tail_first[0];
  if (tail_first[shape.slots] - begin > static_cast<std::uint32_t>(shape.tail_capacity)) {
    __trap();  // twelve standard deviations: a wrong answer would be worse
  }
  for (int group = threadIdx.x; group <= shape.groups; group += kThreads) {
    offsets[group] = static_cast<std::uint16_t>(tail_first[group * kSlotsPerGroup] - begin);
  }
  for (int slot = threadIdx.x; slot < shape.slots; slot += kThreads) {
    const TailOfSlot tail = tail_of_slot(shape, own.first, cta, slot);
    std::uint32_t* const to = tails + tail_first[slot] - begin;
    for (std::uint32_t j = 0; j < tail.count; ++j) {
      const std::uint16_t entry = own.list[tail.first + j * static_cast<std::uint32_t>(shape.parts)];
      to[j] = static_cast<std::uint32_t>(slot % kSlotsPerGroup) << 16 | entry;
    }
  }
}

/// A CTA makes the table of a tile.
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    fill_tail_table_kernel(TailShape shape, std::byte* __restrict__ table) {
  extern __shared__ __align__(16) std::byte tail_memory[];
  const TailShared own = tail_shared(shape.layout, tail_memory);
  const std::int64_t row0 = (shape.first_tile + blockIdx.x) * shape.tile_rows;
  count_entries(shape, row0, own);
  __syncthreads();
  exclusive_sums(own.counts, own.first, shape.d);
  sort_entries(shape, row0, own);
  const int all_slots = shape.cluster * shape.slots;
  for (int i = threadIdx.x; i < all_slots; i += kThreads) {
    own.counts[i] = tail_of_slot(shape, own.first, i / shape.slots, i % shape.slots).count;
  }
  __syncthreads();
  exclusive_sums(own.counts, own.tail_first, all_slots);
  for (int cta = 0; cta < shape.cluster; ++cta) {
    std::byte* const out = table + (static_cast<std::int64_t>(blockIdx.x) * shape.cluster + cta) * shape.entry_bytes;
    std::byte* const offsets = out + shape.dense_bytes;
    write_dense(shape, cta, own, reinterpret_cast<std::uint16_t*>(out));
    write_tails(shape, cta, own, reinterpret_cast<std::uint16_t*>(offsets),
                reinterpret_cast<std::uint32_t*>(offsets + shape.offset_bytes));
  }
}

}  // namespace

cudaError_t fill_tail_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, void* table,
                            cudaStream_t stream) {
  TailShape shape{};
  shape.spec = spec;
  shape.layout = tail_table_layout(spec, plan);
  shape.first_tile = tiles.first;
  shape.d = static_cast<std::int32_t>(spec.d);
  shape.zeta = spec.zeta;
  shape.tile_rows = static_cast<std::int32_t>(plan.tile_rows);
  shape.cluster = plan.cluster;
  shape.groups = static_cast<std::int32_t>(plan.groups());
  shape.slots = static_cast<std::int32_t>(plan.slots());
  shape.buckets = static_cast<std::int32_t>(plan.buckets);
  shape.parts = plan.parts;
  shape.entries = plan.entries;
  shape.zero_row = plan.cluster * plan.boxes * plan.box_rows;
  shape.tail_capacity = static_cast<std::int32_t>(plan.tail_capacity);
  shape.entry_bytes = plan.entry_bytes;
  shape.dense_bytes = plan.dense_bytes();
  shape.offset_bytes = plan.offset_bytes();
  const auto shared = static_cast<std::size_t>(shape.layout.bytes);
  if (const cudaError_t status = cudaFuncSetAttribute(
          fill_tail_table_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
      status != cudaSuccess) {
    return status;
  }
  fill_tail_table_kernel<<<static_cast<unsigned>(tiles.count), kThreads, shared, stream>>>(
      shape, static_cast<std::byte*>(table));
  return cudaGetLastError();
}

}  // namespace tallsketch::cuda
