// BlockPerm-SJLT: which output blocks an input block feeds, and how the rows of a batch are dealt to their buckets.
// Part of the definition of S: included by sketch_rule.h and the tables that evaluate whole batches. Host and device.
//
// M = d / B_r output blocks of B_r sketch rows; M input blocks. Output block g adds the rows of its kappa neighbours
// f(g), f(f(g)), ...; so input block h feeds f^-1(h), f^-2(h), ... In each of them a row has s nonzeros, one in each
// sub-block of B_r / s buckets. A *group* is one sub-block of one output block, g * s + u. The rows of a batch that
// belong to a group are dealt to its buckets by one shuffle, the same number to every bucket.
// Source: paper B (FlashSketch), section 3; the joint deal and interleaved blocks: docs/decisions/0011.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "kernels/host_device.h"
#include "kernels/philox.h"
#include "kernels/sketch_spec.h"

namespace tallsketch {

/// M: output blocks, and input blocks.
TALLSKETCH_HOST_DEVICE std::int64_t block_count(const SketchSpec& spec) { return spec.d / spec.block_rows; }

/// Buckets of a group.
TALLSKETCH_HOST_DEVICE std::uint32_t group_buckets(const SketchSpec& spec) {
  return static_cast<std::uint32_t>(spec.block_rows / spec.block_nnz);
}

TALLSKETCH_HOST_DEVICE std::int64_t group_count(const SketchSpec& spec) { return block_count(spec) * spec.block_nnz; }

/// Rows of a batch that one shuffle deals. Interleaved: those of all kappa neighbours; contiguous: the whole batch.
TALLSKETCH_HOST_DEVICE std::uint32_t deal_rows(const SketchSpec& spec) {
  return static_cast<std::uint32_t>(spec.input_blocks == InputBlocks::kInterleaved
                                        ? spec.kappa * (spec.batch_rows / block_count(spec))
                                        : spec.batch_rows);
}

/// Rows of a whole batch that every bucket receives (contiguous blocks: at most).
TALLSKETCH_HOST_DEVICE std::uint32_t deal_rows_per_bucket(const SketchSpec& spec) {
  return deal_rows(spec) / group_buckets(spec);
}

/// T. Interleaved: the least multiple of M that gives every bucket a whole number of rows; contiguous: what gives every
/// bucket of a group a row. Repeated while a shuffle stays below 128 rows and a batch below 512: short shuffles are
/// many, which the GPU wants; long ones give a bucket several rows, which the host wants.
inline std::int64_t block_perm_batch_rows(const SketchSpec& spec) {
  const std::int64_t buckets = group_buckets(spec);
  const bool contiguous = spec.input_blocks == InputBlocks::kContiguous;
  const std::int64_t per_block = contiguous ? 1 : buckets / std::gcd(std::int64_t{spec.kappa}, buckets);
  const std::int64_t least = contiguous ? buckets : block_count(spec) * per_block;
  const std::int64_t dealt = contiguous ? buckets : spec.kappa * per_block;
  const std::int64_t times = std::min(512 / least, 128 / dealt);
  return least * (times > 1 ? times : 1);
}

/// A random full cycle through M blocks: gcd(offset, M) = 1, every prime of M divides multiplier - 1, and so does 4
/// where it divides M (Hull & Dobell 1962). Needs 1 <= M <= 2^30. Host only; the result is kept in the spec.
inline BlockWiring make_block_wiring(std::uint64_t seed, std::int64_t blocks) {
  std::int64_t step = blocks % 4 == 0 ? 2 : 1;  // times the product of the primes of M
  for (std::int64_t prime = 2, rest = blocks; rest > 1; ++prime) {
    if (prime * prime > rest) prime = rest;
    if (rest % prime != 0) continue;
    step *= prime;
    while (rest % prime == 0) rest /= prime;
  }
  const RandomWords words = random_words(seed, 0, DrawPurpose::kWiring, 0);
  BlockWiring wiring;
  wiring.multiplier = (1 + step * bounded(word_pair(words, 0), static_cast<std::uint32_t>(blocks / step))) % blocks;
  for (std::uint32_t draw = 1;; ++draw) {
    const RandomWords again = random_words(seed, 0, DrawPurpose::kWiring, draw);
    wiring.offset = bounded(word_pair(again, 0), static_cast<std::uint32_t>(blocks));
    if (std::gcd(wiring.offset, blocks) == 1) break;  // at least one in nine for every M in range
  }
  // The inverse of the multiplier modulo M: Euclid's algorithm, extended.
  std::int64_t a = blocks, b = wiring.multiplier, x = 0, y = 1;
  while (b > 1) {
    const std::int64_t quotient = a / b;
    a = std::exchange(b, a - quotient * b);
    x = std::exchange(y, x - quotient * y);
  }
  wiring.inverse_multiplier = blocks == 1 ? 0 : (y % blocks + blocks) % blocks;
  wiring.inverse_offset = (blocks - wiring.inverse_multiplier * wiring.offset % blocks) % blocks;
  return wiring;
}

/// The input block that is neighbour `l` of an output block, 0 <= l < kappa.
TALLSKETCH_HOST_DEVICE std::int64_t input_block(const SketchSpec& spec, std::int64_t output_block, std::int32_t l) {
  for (; l >= 0; --l) {
    output_block = (spec.wiring.multiplier * output_block + spec.wiring.offset) % block_count(spec);
  }
  return output_block;
}

/// The output block whose neighbour `l` an input block is.
TALLSKETCH_HOST_DEVICE std::int64_t output_block(const SketchSpec& spec, std::int64_t input_block, std::int32_t l) {
  for (; l >= 0; --l) {
    input_block = (spec.wiring.inverse_multiplier * input_block + spec.wiring.inverse_offset) % block_count(spec);
  }
  return input_block;
}

/// The input block that a row belongs to.
TALLSKETCH_HOST_DEVICE std::int64_t input_block_of_row(const SketchSpec& spec, std::int64_t row) {
  const std::int64_t blocks = block_count(spec);
  if (spec.input_blocks == InputBlocks::kInterleaved) return row % blocks;
  return row / ((spec.total_rows + blocks - 1) / blocks);
}

/// Where entry t of a row is dealt: t = l * s + u is sub-block u of the output block whose neighbour l the row is in.
struct DealtRow {
  std::int64_t group;
  std::uint32_t element;  // of the group's shuffle, [0, deal_rows)
};
TALLSKETCH_HOST_DEVICE DealtRow dealt_row(const SketchSpec& spec, std::int64_t row, std::int32_t t) {
  const std::int32_t l = t / spec.block_nnz, u = t % spec.block_nnz;
  const std::int64_t group = output_block(spec, input_block_of_row(spec, row), l) * spec.block_nnz + u;
  const auto position = static_cast<std::uint32_t>(row % spec.batch_rows);
  if (spec.input_blocks == InputBlocks::kContiguous) return {group, position};
  const auto blocks = static_cast<std::uint32_t>(block_count(spec));
  return {group,
          static_cast<std::uint32_t>(l) * static_cast<std::uint32_t>(spec.batch_rows / blocks) + position / blocks};
}

// The shuffle of Fisher and Yates (Knuth, The Art of Computer Programming 3.4.2, algorithm P): for j = D - 1 ... 1,
// elements j and r_j change places, r_j uniform in [0, j]. Exactly uniform over all permutations, however few the rows;
// a Feistel network is not (docs/decisions/0003). Bias of a draw: below D / 2^32.

/// The random words behind draws 4k ... 4k + 3 of a group's shuffle.
TALLSKETCH_HOST_DEVICE RandomWords shuffle_words(const SketchSpec& spec, std::int64_t batch, std::int64_t group,
                                                 std::uint32_t four) {
  return random_words(spec.seed, batch * group_count(spec) + group, DrawPurpose::kShuffle, four);
}

/// r_j from its word.
TALLSKETCH_HOST_DEVICE std::uint32_t shuffle_draw(std::uint32_t word, std::uint32_t j) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(word) * (j + 1)) >> 32);
}

/// Place of one element after the shuffle: follows it through the exchanges.
/// Cost: up to D steps and a Philox call every four
TALLSKETCH_HOST_DEVICE std::uint32_t shuffled_place(const SketchSpec& spec, std::int64_t batch, std::int64_t group,
                                                    std::uint32_t element) {
  std::uint32_t place = element;
  RandomWords words{};
  std::uint32_t have = 0xffffffffU;
  for (std::uint32_t j = deal_rows(spec) - 1; j >= 1; --j) {
    if (j >> 2 != have) words = shuffle_words(spec, batch, group, have = j >> 2);
    const std::uint32_t r = shuffle_draw(words.word[j & 3], j);
    if (place == j) {
      place = r;
    } else if (place == r) {
      return j;  // the exchanges that follow are all below j
    }
  }
  return place;
}

}  // namespace tallsketch
