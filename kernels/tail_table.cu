// The entry tables of the strip engine for the independent hash: the entries of a tile are dealt to its sketch rows by
// counting, in shared memory, and sorted by row, so that the order of summation is fixed. Layout of a tile's table, for each
// CTA: 16-bit entries [group][entry of a slot][slot of the group]; 16-bit tail offsets of the groups; 32-bit tails,
// slot of the group * 2^16 + entry.
#include "kernels/sketch_rule.h"
#include "kernels/table_launchers.h"

#include <cub/block/block_scan.cuh>

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocksPerSm = 5;  // many small blocks hide the latency of a dozen barriers a tile

struct TailShape {
  SketchSpec spec;
  std::int64_t first_tile, tiles;
  std::int32_t d, zeta, tile_rows, cluster, groups, slots, buckets, parts, entries;
  std::int32_t zero_row, tail_capacity, sign_stride;
  std::int64_t entry_bytes, dense_bytes, offset_bytes;
};

/// first[i] = sum of counts[0 .. i) for i <= count; every thread of the block calls it.
__device__ void exclusive_sums(const std::uint32_t* counts, std::uint32_t* first, int count) {
  using Scan = cub::BlockScan<std::uint32_t, kThreads>;
  __shared__ typename Scan::TempStorage storage;
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

__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    fill_tail_table_kernel(TailShape shape, std::byte* __restrict__ table) {
  extern __shared__ RandomWords tail_shared[];
  __shared__ std::uint32_t block_first[kMaxStripZeta + 1];
  RandomWords* const signs = tail_shared;             // [block][128-row draw]
  const int all_slots = shape.cluster * shape.slots;  // at least d
  auto* const counts = reinterpret_cast<std::uint32_t*>(signs + shape.zeta * shape.sign_stride);  // (d), then cursors
  std::uint32_t* const tail_counts = counts;              // (all_slots), once the cursors have done their work
  std::uint32_t* const first = counts + all_slots;        // (d + 1)
  std::uint32_t* const tail_first = first + shape.d + 1;  // (all_slots + 1)
  auto* const sketch_rows = reinterpret_cast<std::uint16_t*>(tail_first + all_slots + 1);  // (tile_rows, zeta)
  std::uint16_t* const unsorted = sketch_rows + shape.tile_rows * shape.zeta;              // (tile_rows * zeta)
  std::uint16_t* const list = unsorted + shape.tile_rows * shape.zeta;  // the same, by row in each bucket

  const std::int64_t row0 = (shape.first_tile + blockIdx.x) * shape.tile_rows;
  const int total = shape.tile_rows * shape.zeta;
  // The rule's block borders, once: they cost 64-bit divisions.
  if (static_cast<int>(threadIdx.x) <= shape.zeta) {
    block_first[threadIdx.x] = static_cast<std::uint32_t>(
        static_cast<int>(threadIdx.x) < shape.zeta ? block_begin(shape.spec, static_cast<std::int32_t>(threadIdx.x))
                                                   : shape.spec.d);
  }
  for (int i = threadIdx.x; i < shape.d; i += kThreads) counts[i] = 0;
  for (int i = threadIdx.x; i < shape.zeta * shape.sign_stride; i += kThreads) {
    signs[i] = sign_words(shape.spec, ((row0 >> 7) + i % shape.sign_stride) << 7, i / shape.sign_stride);
  }
  __syncthreads();
  const int pairs = (shape.zeta + 1) / 2;  // of blocks: they share a draw
  for (int i = threadIdx.x; i < shape.tile_rows * pairs; i += kThreads) {
    const int row = i / pairs, block0 = i % pairs * 2;
    const RandomWords words = independent_words(shape.spec, row0 + row, block0);
    for (int block = block0; block < min(shape.zeta, block0 + 2); ++block) {
      const std::uint32_t sketch_row =
          block_first[block] + independent_bucket(words, block, block_first[block + 1] - block_first[block]);
      sketch_rows[row * shape.zeta + block] = static_cast<std::uint16_t>(sketch_row);
      atomicAdd(counts + sketch_row, 1U);
    }
  }
  __syncthreads();
  exclusive_sums(counts, first, shape.d);
  for (int i = threadIdx.x; i < shape.d; i += kThreads) counts[i] = first[i];
  __syncthreads();
  for (int i = threadIdx.x; i < total; i += kThreads) {
    const int row = i / shape.zeta, block = i % shape.zeta;
    const std::int64_t from_draw0 = (row0 & 127) + row;
    const bool negative = sign_bit(signs[block * shape.sign_stride + static_cast<int>(from_draw0 >> 7)], from_draw0);
    unsorted[atomicAdd(counts + sketch_rows[i], 1U)] = static_cast<std::uint16_t>(row * 2 + (negative ? 1 : 0));
  }
  __syncthreads();
  // Every entry finds its place among the few of its bucket: those of smaller rows come before it.
  for (int i = threadIdx.x; i < total; i += kThreads) {
    const std::uint32_t begin = first[sketch_rows[i]], end = first[sketch_rows[i] + 1];
    const int row = i / shape.zeta;
    std::uint32_t place = begin;
    std::uint16_t own = 0;
    for (std::uint32_t k = begin; k < end; ++k) {
      const std::uint16_t value = unsorted[k];
      place += value >> 1 < row ? 1 : 0;
      if (value >> 1 == row) own = value;
    }
    list[place] = own;
  }
  for (int i = threadIdx.x; i < all_slots; i += kThreads) {
    tail_counts[i] = tail_of_slot(shape, first, i / shape.slots, i % shape.slots).count;
  }
  __syncthreads();
  exclusive_sums(tail_counts, tail_first, all_slots);

  for (int cta = 0; cta < shape.cluster; ++cta) {
    std::byte* const out = table + (static_cast<std::int64_t>(blockIdx.x) * shape.cluster + cta) * shape.entry_bytes;
    auto* const dense = reinterpret_cast<std::uint16_t*>(out);
    for (int i = threadIdx.x; i < shape.slots * shape.entries; i += kThreads) {
      const int slot = i / (shape.entries * kSlotsPerGroup) * kSlotsPerGroup + i % kSlotsPerGroup;
      const int entry = i / kSlotsPerGroup % shape.entries;
      const int part = slot / shape.buckets, sketch_row = cta * shape.buckets + slot % shape.buckets;
      auto value = static_cast<std::uint16_t>(shape.zero_row * 2);
      if (part < shape.parts && sketch_row < shape.d) {
        const std::uint32_t at = first[sketch_row] + static_cast<std::uint32_t>(part * shape.entries + entry);
        if (at < first[sketch_row + 1]) value = list[at];
      }
      dense[i] = value;
    }
    auto* const offsets = reinterpret_cast<std::uint16_t*>(out + shape.dense_bytes);
    auto* const tails = reinterpret_cast<std::uint32_t*>(out + shape.dense_bytes + shape.offset_bytes);
    const std::uint32_t begin = tail_first[cta * shape.slots];
    if (tail_first[(cta + 1) * shape.slots] - begin > static_cast<std::uint32_t>(shape.tail_capacity)) {
      __trap();  // twelve standard deviations: a wrong answer would be worse
    }
    for (int group = threadIdx.x; group <= shape.groups; group += kThreads) {
      offsets[group] = static_cast<std::uint16_t>(tail_first[cta * shape.slots + group * kSlotsPerGroup] - begin);
    }
    for (int slot = threadIdx.x; slot < shape.slots; slot += kThreads) {
      const TailOfSlot tail = tail_of_slot(shape, first, cta, slot);
      std::uint32_t* const to = tails + tail_first[cta * shape.slots + slot] - begin;
      for (std::uint32_t j = 0; j < tail.count; ++j) {
        const std::uint16_t entry = list[tail.first + j * static_cast<std::uint32_t>(shape.parts)];
        to[j] = static_cast<std::uint32_t>(slot % kSlotsPerGroup) << 16 | entry;
      }
    }
  }
}

}  // namespace

cudaError_t fill_tail_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, void* table,
                            cudaStream_t stream) {
  TailShape shape{};
  shape.spec = spec;
  shape.first_tile = tiles.first;
  shape.tiles = tiles.count;
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
  shape.sign_stride = static_cast<std::int32_t>(plan.tile_rows / 128 + 2);
  shape.entry_bytes = plan.entry_bytes;
  shape.dense_bytes = plan.dense_bytes();
  shape.offset_bytes = plan.offset_bytes();
  const std::int64_t slots = plan.cluster * plan.slots();
  const auto shared = static_cast<std::size_t>(spec.zeta * shape.sign_stride) * sizeof(RandomWords) +
                      static_cast<std::size_t>(slots + spec.d + 1 + slots + 1) * 4 +
                      static_cast<std::size_t>(3 * plan.tile_rows * spec.zeta) * 2;
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
