// The rule of sketch_rule.h, evaluated for whole batches in loops that the compiler vectorises.
#include "kernels/entry_table_host.h"

#include <algorithm>
#include <cassert>

#include "kernels/host_device.h"
#include "kernels/sketch_rule.h"

namespace tallsketch::host {
namespace {

/// Sign bits of rows [first, first + rows) of a block, 32 a word, the first row in bit 0 of word 0.
void collect_signs(const SketchSpec& spec, std::int64_t first, std::int64_t rows, std::int32_t block,
                   std::uint32_t* signs) {
  const auto shift = static_cast<std::uint32_t>(first & 31);
  const std::int64_t words = (rows + 31) / 32;
  std::int64_t row = first - shift;
  RandomWords draw = sign_words(spec, row, block);
  std::uint32_t low = draw.word[(row >> 5) & 3];
  for (std::int64_t k = 0; k < words; ++k) {
    row += 32;
    if ((row & 127) == 0) draw = sign_words(spec, row, block);
    const std::uint32_t high = draw.word[(row >> 5) & 3];
    signs[k] = static_cast<std::uint32_t>(((static_cast<std::uint64_t>(high) << 32) | low) >> shift);
    low = high;
  }
}

TALLSKETCH_VECTOR_CLONES
void invert_all(const KeyedBijection& bijection, std::uint32_t count, std::uint32_t* values) {
  const KeyedBijection b = bijection;
  for (std::uint32_t k = 0; k < count; ++k) values[k] = feistel_backward(b, k);
}

TALLSKETCH_VECTOR_CLONES
void invert_again(const KeyedBijection& bijection, std::int64_t count, std::uint32_t* values) {
  const KeyedBijection b = bijection;
  for (std::int64_t k = 0; k < count; ++k) values[k] = feistel_backward(b, values[k]);
}

TALLSKETCH_VECTOR_CLONES
void map_all(const KeyedBijection& bijection, std::uint32_t first, std::uint32_t count, std::uint32_t* values) {
  const KeyedBijection b = bijection;
  for (std::uint32_t k = 0; k < count; ++k) values[k] = feistel_forward(b, first + k);
}

/// Sixteen words in a register: a permutation of it is a table look-up.
using Words = std::uint32_t __attribute__((vector_size(64), aligned(4), may_alias));
constexpr std::int64_t kLookupRows = 16 * 32;  // rows whose signs fit one register; T = 512 or a little less is usual

/// Adds to every position the sign of its row.
TALLSKETCH_VECTOR_CLONES
void attach_signs(const std::uint32_t* signs, std::int64_t rows, std::uint32_t* entries) {
  std::int64_t k = 0;
  if (rows <= kLookupRows) {
    const Words table = *reinterpret_cast<const Words*>(signs);
    for (; k + 16 <= rows; k += 16) {
      auto* at = reinterpret_cast<Words*>(entries + k);
      const Words position = *at;
      const Words word = __builtin_shuffle(table, position >> 5);
      *at = position | ((word << (~position & 31)) & kSignBit);
    }
  }
  for (; k < rows; ++k) {
    const std::uint32_t position = entries[k];
    entries[k] = position | ((signs[position >> 5] << (~position & 31)) & kSignBit);
  }
}

/// Cycle walking for a domain that is no power of two: only the values still outside are mapped again.
/// slots  scratch (T): which value each walker is; walkers  scratch (T)
void walk_back(const KeyedBijection& bijection, std::uint32_t* values, std::uint32_t* slots, std::uint32_t* walkers) {
  std::int64_t outside = 0;
  for (std::uint32_t k = 0; k < bijection.size; ++k) {
    slots[outside] = k;
    walkers[outside] = values[k];
    outside += values[k] >= bijection.size;
  }
  while (outside > 0) {
    invert_again(bijection, outside, walkers);
    std::int64_t still = 0;
    for (std::int64_t k = 0; k < outside; ++k) {
      const std::uint32_t value = walkers[k];
      values[slots[k]] = value;
      slots[still] = slots[k];
      walkers[still] = value;
      still += value >= bijection.size;
    }
    outside = still;
  }
}

/// Adds to every bucket the first sketch row of its block and the sign of its row; signs as collect_signs leaves them.
TALLSKETCH_VECTOR_CLONES
void place_in_sketch(const std::uint32_t* __restrict signs, std::int64_t rows, std::uint32_t first_sketch_row,
                     std::uint32_t* __restrict entries) {
  for (std::int64_t k = 0; k < rows; k += 32) {
    const std::uint32_t word = signs[k / 32];
    const auto count = static_cast<std::uint32_t>(std::min<std::int64_t>(32, rows - k));
    for (std::uint32_t j = 0; j < count; ++j) {
      entries[k + j] = (entries[k + j] + first_sketch_row) | ((word << (31 - j)) & kSignBit);
    }
  }
}

}  // namespace

std::int64_t table_batch_rows(const SketchSpec& spec) {
  return spec.hash == SketchHash::kPermuted ? spec.batch_rows : batch_rows_for(spec);
}

std::int64_t rows_per_bucket(const SketchSpec& spec) {
  if (spec.hash != SketchHash::kPermuted || spec.d % spec.zeta != 0) return 0;
  const std::int64_t buckets = spec.d / spec.zeta;
  return spec.batch_rows % buckets == 0 ? spec.batch_rows / buckets : 0;
}

std::int64_t table_scratch_words(const SketchSpec& spec) {
  return 2 * table_batch_rows(spec) + table_batch_rows(spec) / 32 + 17;
}

void fill_gather_table(const SketchSpec& spec, std::int64_t batch, std::int32_t block, std::uint32_t* entries,
                       std::uint32_t* scratch) {
  assert(rows_per_bucket(spec) > 0);
  const std::int64_t rows = spec.batch_rows;
  const BatchDeal deal = make_batch_deal(spec, batch, block);
  invert_all(deal.bijection, deal.rows, entries);
  if (deal.rows != std::uint32_t{1} << domain_bits(deal.rows)) {
    walk_back(deal.bijection, entries, scratch, scratch + rows);
  }
  std::uint32_t* signs = scratch + 2 * rows;
  collect_signs(spec, batch * rows, rows, block, signs);
  attach_signs(signs, rows, entries);
}

void fill_scatter_table(const SketchSpec& spec, std::int64_t batch, std::int64_t lo, std::int64_t hi,
                        std::int32_t block, std::uint32_t* entries, std::uint32_t* scratch) {
  const std::int64_t first = batch * table_batch_rows(spec);
  entries += lo;
  if (spec.hash == SketchHash::kIndependent) {
    for (std::int64_t k = 0; k < hi - lo; ++k) entries[k] = independent_bucket(spec, first + lo + k, block);
  } else {
    const BatchDeal deal = make_batch_deal(spec, batch, block);
    map_all(deal.bijection, static_cast<std::uint32_t>(lo), static_cast<std::uint32_t>(hi - lo), entries);
    const bool walks = deal.bijection.size != std::uint32_t{1} << domain_bits(deal.bijection.size);
    if (walks || deal.rows > deal.buckets) {
      for (std::int64_t k = 0; k < hi - lo; ++k) {
        while (entries[k] >= deal.bijection.size) entries[k] = feistel_forward(deal.bijection, entries[k]);
        entries[k] = bucket_of_image(deal, entries[k]);
      }
    }
  }
  collect_signs(spec, first + lo, hi - lo, block, scratch);
  place_in_sketch(scratch, hi - lo, static_cast<std::uint32_t>(block_begin(spec, block)), entries);
}

}  // namespace tallsketch::host
