// The rule of sketch_rule.h, evaluated for whole batches in loops that the compiler vectorises.
#include "kernels/entry_table_host.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "kernels/host_device.h"
#include "kernels/signed_entry.h"
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
      *at = position | ((word << (~position & 31)) & kEntrySign);
    }
  }
  for (; k < rows; ++k) {
    const std::uint32_t position = entries[k];
    entries[k] = position | ((signs[position >> 5] << (~position & 31)) & kEntrySign);
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
      entries[k + j] = (entries[k + j] + first_sketch_row) | ((word << (31 - j)) & kEntrySign);
    }
  }
}

// SparseStack ------------------------------------------------------------------------------------------------------

/// entries  out (T): bucket k of the block owns entries [k * C, (k + 1) * C)
void gather_block(const SketchSpec& spec, std::int64_t batch, std::int32_t block, std::uint32_t* entries,
                  std::uint32_t* scratch) {
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

/// Buckets, counted inside the block, of rows [lo, hi) of the batch. buckets  out (hi - lo)
void deal_block(const SketchSpec& spec, std::int64_t batch, std::int64_t lo, std::int64_t hi, std::int32_t block,
                std::uint32_t* buckets) {
  if (spec.hash == SketchHash::kIndependent) {
    const std::int64_t first = batch * spec.batch_rows;
    for (std::int64_t k = 0; k < hi - lo; ++k) buckets[k] = independent_bucket(spec, first + lo + k, block);
    return;
  }
  const BatchDeal deal = make_batch_deal(spec, batch, block);
  map_all(deal.bijection, static_cast<std::uint32_t>(lo), static_cast<std::uint32_t>(hi - lo), buckets);
  const bool walks = deal.bijection.size != std::uint32_t{1} << domain_bits(deal.bijection.size);
  if (!walks && deal.rows <= deal.buckets) return;
  for (std::int64_t k = 0; k < hi - lo; ++k) {
    while (buckets[k] >= deal.bijection.size) buckets[k] = feistel_forward(deal.bijection, buckets[k]);
    buckets[k] = bucket_of_image(deal, buckets[k]);
  }
}

// BlockPerm --------------------------------------------------------------------------------------------------------

/// Words of a group's shuffle, one a draw. words  out (D rounded up to 4)
TALLSKETCH_VECTOR_CLONES
void draw_shuffle(const SketchSpec& spec, std::int64_t batch, std::int64_t group, std::uint32_t* words) {
  const std::uint32_t fours = (deal_rows(spec) + 3) / 4;
  for (std::uint32_t k = 0; k < fours; ++k) {
    const RandomWords drawn = shuffle_words(spec, batch, group, k);
    for (int i = 0; i < 4; ++i) words[4 * k + static_cast<std::uint32_t>(i)] = drawn.word[i];
  }
}

/// Puts the elements of a group in the order of its buckets. words  scratch (D rounded up to 4)
void shuffle(const SketchSpec& spec, std::int64_t batch, std::int64_t group, std::uint32_t* elements,
             std::uint32_t* words) {
  draw_shuffle(spec, batch, group, words);
  for (std::uint32_t j = deal_rows(spec) - 1; j >= 1; --j) std::swap(elements[j], elements[shuffle_draw(words[j], j)]);
}

std::int64_t sign_words_of_batch(const SketchSpec& spec) { return spec.batch_rows / 32 + 17; }
std::int64_t shuffle_scratch_words(const SketchSpec& spec) { return deal_rows(spec) + 4; }

/// Entries with their signs are what is shuffled: elements of neighbour l are its rows of the batch, in order.
void gather_groups(const SketchSpec& spec, std::int64_t batch, std::uint32_t* entries, std::uint32_t* scratch) {
  const std::int64_t rows = spec.batch_rows, blocks = block_count(spec);
  std::uint32_t* const signs = scratch + shuffle_scratch_words(spec);  // (zeta, sign_words_of_batch)
  for (std::int32_t t = 0; t < spec.zeta; ++t) {
    collect_signs(spec, batch * rows, rows, t, signs + t * sign_words_of_batch(spec));
  }
  for (std::int64_t group = 0; group < group_count(spec); ++group, entries += deal_rows(spec)) {
    const auto u = static_cast<std::int32_t>(group % spec.block_nnz);
    std::uint32_t* element = entries;
    for (std::int32_t l = 0; l < spec.kappa; ++l) {
      const std::uint32_t* const own_signs = signs + (l * spec.block_nnz + u) * sign_words_of_batch(spec);
      for (std::int64_t position = input_block(spec, group / spec.block_nnz, l); position < rows; position += blocks) {
        *element++ = static_cast<std::uint32_t>(position) |
                     ((own_signs[position >> 5] << (~static_cast<std::uint32_t>(position) & 31)) & kEntrySign);
      }
    }
    shuffle(spec, batch, group, entries, scratch);
  }
}

/// Interleaved: all rows of a batch, whichever exist. What is shuffled are places in the table.
/// sketch_rows  out (zeta, T)
void deal_interleaved(const SketchSpec& spec, std::int64_t batch, std::uint32_t* sketch_rows, std::uint32_t* scratch) {
  const std::uint32_t each = deal_rows_per_bucket(spec);
  std::uint32_t* const places = scratch + shuffle_scratch_words(spec);
  for (std::int64_t group = 0; group < group_count(spec); ++group) {
    std::uint32_t* place = places;
    for (std::int32_t l = 0; l < spec.kappa; ++l) {
      const std::int64_t own = (l * spec.block_nnz + group % spec.block_nnz) * spec.batch_rows;
      for (std::int64_t position = input_block(spec, group / spec.block_nnz, l); position < spec.batch_rows;
           position += block_count(spec)) {
        *place++ = static_cast<std::uint32_t>(own + position);
      }
    }
    shuffle(spec, batch, group, places, scratch);
    const auto first = static_cast<std::uint32_t>(group) * group_buckets(spec);
    for (std::uint32_t k = 0; k < deal_rows(spec); ++k) sketch_rows[places[k]] = first + k / each;
  }
}

/// Contiguous: rows [lo, hi) of a batch, which lie in one input block.
/// sketch_rows  out (zeta, T), columns [lo, hi)
void deal_contiguous(const SketchSpec& spec, std::int64_t batch, std::int64_t lo, std::int64_t hi,
                     std::uint32_t* sketch_rows, std::uint32_t* scratch) {
  const std::uint32_t each = deal_rows_per_bucket(spec);
  const std::int64_t block = input_block_of_row(spec, batch * spec.batch_rows + lo);
  std::uint32_t* const positions = scratch + shuffle_scratch_words(spec);
  for (std::int32_t t = 0; t < spec.zeta; ++t, sketch_rows += spec.batch_rows) {
    const std::int64_t group = output_block(spec, block, t / spec.block_nnz) * spec.block_nnz + t % spec.block_nnz;
    std::iota(positions, positions + spec.batch_rows, 0U);
    shuffle(spec, batch, group, positions, scratch);
    const auto first = static_cast<std::uint32_t>(group) * group_buckets(spec);
    for (std::uint32_t k = 0; k < deal_rows(spec); ++k) {
      if (positions[k] >= lo && positions[k] < hi) sketch_rows[positions[k]] = first + k / each;
    }
  }
}

/// sketch_rows  out (zeta, T), columns [lo, hi) at least
void deal_groups(const SketchSpec& spec, std::int64_t batch, std::int64_t lo, std::int64_t hi,
                 std::uint32_t* sketch_rows, std::uint32_t* scratch) {
  const std::int64_t first = batch * spec.batch_rows;
  if (spec.hash == SketchHash::kIndependent) {
    for (std::int32_t t = 0; t < spec.zeta; ++t) {
      for (std::int64_t k = lo; k < hi; ++k) {
        sketch_rows[t * spec.batch_rows + k] = static_cast<std::uint32_t>(sketch_entry(spec, first + k, t).sketch_row);
      }
    }
  } else if (spec.input_blocks == InputBlocks::kInterleaved) {
    deal_interleaved(spec, batch, sketch_rows, scratch);
  } else {
    for (std::int64_t begin = lo; begin < hi;) {
      const std::int64_t block = input_block_of_row(spec, first + begin);
      std::int64_t end = begin + 1;
      while (end < hi && input_block_of_row(spec, first + end) == block) ++end;
      deal_contiguous(spec, batch, begin, end, sketch_rows, scratch);
      begin = end;
    }
  }
}

}  // namespace

std::int64_t table_scratch_words(const SketchSpec& spec) {
  if (spec.family == SketchFamily::kBlockPerm) {
    return shuffle_scratch_words(spec) + std::max<std::int64_t>(deal_rows(spec), spec.zeta * sign_words_of_batch(spec));
  }
  return 2 * spec.batch_rows + spec.batch_rows / 32 + 17;
}

void fill_gather_table(const SketchSpec& spec, std::int64_t batch, std::uint32_t* entries, std::uint32_t* scratch) {
  assert(fixed_rows_per_bucket(spec) > 0);
  if (spec.family == SketchFamily::kBlockPerm) {
    gather_groups(spec, batch, entries, scratch);
    return;
  }
  for (std::int32_t t = 0; t < spec.zeta; ++t) gather_block(spec, batch, t, entries + t * spec.batch_rows, scratch);
}

void fill_scatter_table(const SketchSpec& spec, std::int64_t batch, std::int64_t lo, std::int64_t hi,
                        std::uint32_t* entries, std::uint32_t* scratch) {
  const std::int64_t rows = spec.batch_rows;
  const bool by_block = spec.family == SketchFamily::kSparseStack;
  if (!by_block) deal_groups(spec, batch, lo, hi, entries, scratch);
  for (std::int32_t t = 0; t < spec.zeta; ++t) {
    std::uint32_t* const own = entries + t * rows + lo;
    if (by_block) deal_block(spec, batch, lo, hi, t, own);
    collect_signs(spec, batch * rows + lo, hi - lo, t, scratch);
    place_in_sketch(scratch, hi - lo, by_block ? static_cast<std::uint32_t>(block_begin(spec, t)) : 0, own);
  }
}

}  // namespace tallsketch::host
