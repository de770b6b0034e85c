// The definition of the sketching matrix S. Everything else that knows about S calls this file.
// (seed, global row, block) -> (bucket, sign), and for the permuted hash also (batch, block, bucket) -> rows.
// Used by host and device kernels, by the tests' dense oracle, by nothing else. Needs a valid SketchSpec.
//
// BlockPerm-SJLT: block_perm.h.
//
// SparseStack, d rows in zeta blocks: row i of A goes, in every block, to one bucket with sign +-1; the value is
// sign / sqrt(zeta), and the factor 1 / sqrt(zeta) is applied once, when the sketch is finished.
// Source: Camano et al., arXiv 2508.21189; the permuted hash: docs/decisions/0003.
#pragma once

#include <cstdint>

#include "kernels/block_perm.h"
#include "kernels/host_device.h"
#include "kernels/keyed_bijection.h"
#include "kernels/philox.h"
#include "kernels/sketch_spec.h"

namespace tallsketch {

/// First sketch row of a block; blocks differ by at most one row, the longer ones come first.
TALLSKETCH_HOST_DEVICE std::int64_t block_begin(const SketchSpec& spec, std::int32_t block) {
  const std::int64_t quotient = spec.d / spec.zeta;
  const std::int64_t longer = spec.d % spec.zeta;
  return block * quotient + (block < longer ? block : longer);
}

/// Buckets (sketch rows) of a block.
TALLSKETCH_HOST_DEVICE std::int64_t block_size(const SketchSpec& spec, std::int32_t block) {
  return spec.d / spec.zeta + (block < spec.d % spec.zeta ? 1 : 0);
}

/// T, the rows of a batch. SparseStack: a function of (d, zeta) alone; BlockPerm: of d, B_r, kappa, s and the kind of
/// input blocks. Part of the sketch's identity.
inline std::int64_t batch_rows_for(const SketchSpec& spec) {
  if (spec.family == SketchFamily::kBlockPerm) return block_perm_batch_rows(spec);
  const std::int64_t size = spec.d / spec.zeta;
  return size >= 512 ? size : size * (512 / size);
}

/// Whether entry (row, block) of S is negative. One draw serves 128 consecutive rows of a block.
TALLSKETCH_HOST_DEVICE RandomWords sign_words(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  return random_words(spec.seed, row >> 7, DrawPurpose::kSigns, static_cast<std::uint32_t>(block));
}
TALLSKETCH_HOST_DEVICE bool sign_bit(const RandomWords& words, std::int64_t row) {
  return ((words.word[(row >> 5) & 3] >> (row & 31)) & 1U) != 0;
}
TALLSKETCH_HOST_DEVICE bool is_negative(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  return sign_bit(sign_words(spec, row, block), row);
}

/// The bijection of one (batch, block) and the rotation that spreads an uneven deal.
struct BatchDeal {
  KeyedBijection bijection;
  std::uint32_t rotation;  // in [0, buckets); 0 unless buckets neither divides T nor exceeds it
  std::uint32_t buckets;
  std::uint32_t rows;  // T
};

/// The random words that key a deal.
TALLSKETCH_HOST_DEVICE RandomWords batch_keys(const SketchSpec& spec, std::int64_t batch, std::int32_t block) {
  return random_words(spec.seed, batch, DrawPurpose::kBatchKeys, static_cast<std::uint32_t>(block));
}

TALLSKETCH_HOST_DEVICE BatchDeal make_batch_deal(const SketchSpec& spec, const RandomWords& keys) {
  const auto rows = static_cast<std::uint32_t>(spec.batch_rows);
  const auto buckets = static_cast<std::uint32_t>(spec.d / spec.zeta);
  const bool uneven = rows > buckets && rows % buckets != 0;
  return {make_keyed_bijection(rows > buckets ? rows : buckets, keys.word[0], keys.word[1], keys.word[2]),
          uneven ? bounded(static_cast<std::uint64_t>(keys.word[3]) << 32, buckets) : 0, buckets, rows};
}

TALLSKETCH_HOST_DEVICE BatchDeal make_batch_deal(const SketchSpec& spec, std::int64_t batch, std::int32_t block) {
  return make_batch_deal(spec, batch_keys(spec, batch, block));
}

/// Bucket that slot `image` of the bijection belongs to, 0 <= image < max(T, buckets).
TALLSKETCH_HOST_DEVICE std::uint32_t bucket_of_image(const BatchDeal& deal, std::uint32_t image) {
  if (deal.rows <= deal.buckets) return image;
  const auto bucket =
      static_cast<std::uint32_t>(static_cast<std::uint64_t>(image) * deal.buckets / deal.rows) + deal.rotation;
  return bucket < deal.buckets ? bucket : bucket - deal.buckets;
}

/// Bucket, counted inside its block, of row `position` of the batch; 0 <= position < T.
TALLSKETCH_HOST_DEVICE std::uint32_t bucket_of_position(const BatchDeal& deal, std::uint32_t position) {
  return bucket_of_image(deal, bijection_forward(deal.bijection, position));
}

/// Images that fall into a bucket: [first, last); the row behind an image is bijection_backward's, T and above where it
/// stands for no row (T < buckets). Every bucket has the same number of them where buckets divides T.
struct ImageRange {
  std::uint32_t first, last;
};
TALLSKETCH_HOST_DEVICE ImageRange images_of_bucket(const BatchDeal& deal, std::uint32_t bucket) {
  if (deal.rows <= deal.buckets) return {bucket, bucket + 1};
  const std::uint64_t unrotated =
      bucket >= deal.rotation ? bucket - deal.rotation : bucket + deal.buckets - deal.rotation;
  const std::uint64_t rows = deal.rows;
  return {static_cast<std::uint32_t>((unrotated * rows + deal.buckets - 1) / deal.buckets),
          static_cast<std::uint32_t>(((unrotated + 1) * rows + deal.buckets - 1) / deal.buckets)};
}

/// The draw behind the buckets of a row in blocks 2k and 2k + 1, for the independent hash.
TALLSKETCH_HOST_DEVICE RandomWords independent_words(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  return random_words(spec.seed, row, DrawPurpose::kIndependentBuckets, static_cast<std::uint32_t>(block) >> 1);
}

/// Bucket, counted inside its block, from that draw: uniform, and independent for every (row, block).
TALLSKETCH_HOST_DEVICE std::uint32_t independent_bucket(const RandomWords& words, std::int32_t block,
                                                        std::uint32_t block_buckets) {
  return bounded(word_pair(words, block & 1), block_buckets);
}
TALLSKETCH_HOST_DEVICE std::uint32_t independent_bucket(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  return independent_bucket(independent_words(spec, row, block), block,
                            static_cast<std::uint32_t>(block_size(spec, block)));
}

/// Rows of a whole batch that every sketch row receives; 0 where their number varies.
TALLSKETCH_HOST_DEVICE std::int64_t fixed_rows_per_bucket(const SketchSpec& spec) {
  if (spec.hash != SketchHash::kPermuted) return 0;
  if (spec.family == SketchFamily::kBlockPerm) {
    return spec.input_blocks == InputBlocks::kInterleaved ? deal_rows_per_bucket(spec) : 0;
  }
  const std::int64_t buckets = spec.d / spec.zeta;
  return spec.d % spec.zeta == 0 && spec.batch_rows % buckets == 0 ? spec.batch_rows / buckets : 0;
}

/// One nonzero of S: sketch row in [0, d), and its sign.
struct SketchEntry {
  std::int64_t sketch_row;
  bool negative;
};

/// The rule itself. row: global row of A, >= 0 (below total_rows for contiguous input blocks). block: 0 <= block < zeta;
/// for BlockPerm, block = l * s + u.
TALLSKETCH_HOST_DEVICE SketchEntry sketch_entry(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  std::uint32_t bucket = 0;
  if (spec.family == SketchFamily::kBlockPerm) {
    const DealtRow dealt = dealt_row(spec, row, block);
    if (spec.hash == SketchHash::kPermuted) {
      bucket = shuffled_place(spec, row / spec.batch_rows, dealt.group, dealt.element) / deal_rows_per_bucket(spec);
    } else {
      bucket = independent_bucket(independent_words(spec, row, block), block, group_buckets(spec));
    }
    return {dealt.group * group_buckets(spec) + bucket, is_negative(spec, row, block)};
  }
  if (spec.hash == SketchHash::kPermuted) {
    const BatchDeal deal = make_batch_deal(spec, row / spec.batch_rows, block);
    bucket = bucket_of_position(deal, static_cast<std::uint32_t>(row % spec.batch_rows));
  } else {
    bucket = independent_bucket(spec, row, block);
  }
  return {block_begin(spec, block) + bucket, is_negative(spec, row, block)};
}

}  // namespace tallsketch
