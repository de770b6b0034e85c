// FlashBlockRow: the sampling alternative of paper B. Each output block looks at kappa input blocks only, so that few
// rows of A are read; columns of S may be empty, so S is NOT an embedding. Benchmarks only.
// The definition of its S, host and device; called by block_row.cu and tests.
//
// Output block g, 128 rows of S, draws kappa input blocks of 128 rows of A; each of its rows adds s sampled rows of each of
// them, signed. A block is drawn as that of a uniform row, so that a short last one counts by its rows: every entry of
// a sketch row is uniform over the m rows of A, and with the scale sqrt(m / (d kappa s)) E[S^T S] = I for every m.
// Source: paper B, appendix C. Blocks and rows are drawn with replacement.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/philox.h"

namespace tallsketch {

/// Rows of an input block and of an output block.
inline constexpr int kBlockRowSize = 128;
/// Most sampled rows of a block: a CTA holds 128 x s samples in shared memory.
inline constexpr int kMaxBlockRowNnz = 64;

struct BlockRowSpec {
  std::uint64_t seed = 0;
  std::int64_t m = 0;      // rows of A, 1 to 2^32 - 1
  std::int64_t d = 0;      // a multiple of kBlockRowSize
  std::int32_t kappa = 0;  // input blocks of an output block
  std::int32_t nnz = 0;    // s: sampled rows of each, 1 to kMaxBlockRowNnz
};

/// Rows [first, first + rows) of A.
struct SampledBlock {
  std::int64_t first;
  std::uint32_t rows;  // kBlockRowSize, or what the last block has
};

/// Draw l of an output block, 0 <= l < kappa.
TALLSKETCH_HOST_DEVICE SampledBlock sampled_block(const BlockRowSpec& spec, std::int64_t output_block, std::int32_t l) {
  const RandomWords words =
      random_words(spec.seed, output_block, DrawPurpose::kSampledRows, 2 * static_cast<std::uint32_t>(l));
  const std::int64_t row = bounded(word_pair(words, 0), static_cast<std::uint32_t>(spec.m));
  const std::int64_t first = row / kBlockRowSize * kBlockRowSize;
  const std::int64_t rest = spec.m - first;
  return {first, static_cast<std::uint32_t>(rest < kBlockRowSize ? rest : kBlockRowSize)};
}

/// Sample u, 0 <= u < s, of a sketch row from the block that draw l of its output block gave: the row of A counted from
/// the block's first, and the sign in bit 31.
/// Bias  below 128 / 2^31
TALLSKETCH_HOST_DEVICE std::uint32_t sampled_row(const BlockRowSpec& spec, std::int64_t sketch_row, std::int32_t l,
                                                 std::int32_t u, std::uint32_t block_rows) {
  const auto sample = static_cast<std::uint32_t>(l * spec.nnz + u);
  const std::uint32_t word = random_words(spec.seed, sketch_row, DrawPurpose::kSampledRows, 2 * sample + 1).word[0];
  const std::uint64_t product = static_cast<std::uint64_t>(word >> 1) * block_rows;
  return static_cast<std::uint32_t>(product >> 31) | (word << 31);
}

inline float block_row_scale(const BlockRowSpec& spec) {
  return static_cast<float>(
      std::sqrt(static_cast<double>(spec.m) / (static_cast<double>(spec.d) * spec.kappa * spec.nnz)));
}

}  // namespace tallsketch
