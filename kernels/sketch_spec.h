// SketchSpec: the identity of a sketch, as plain data. Two equal specs define the same S, wherever it is applied.
// Used by every kernel, both backends, the plan and the report. Made by make_sketch_spec (src/sketch_identity.h).
#pragma once

#include <cstdint>

namespace tallsketch {

enum class SketchFamily : std::int32_t { kSparseStack = 0, kBlockPerm = 1 };

/// How a row finds its bucket (docs/decisions/0003, 0010): without or with replacement inside a batch.
enum class SketchHash : std::int32_t { kPermuted = 0, kIndependent = 1 };

/// Which rows form an input block of BlockPerm: i mod M = h, or B_c consecutive ones.
enum class InputBlocks : std::int32_t { kInterleaved = 0, kContiguous = 1 };

/// Number format of the sketch of A while it is accumulated. The sketch of b is never below FP32.
enum class SketchPrecision : std::int32_t { kFp32 = 0, kFp16 = 1, kBf16 = 2, kFp64 = 3 };

/// Bytes of an element of the finished sketch S [A | b]: what was accumulated below FP32 is widened to it.
constexpr std::int64_t sketch_element_size(SketchPrecision precision) {
  return precision == SketchPrecision::kFp64 ? 8 : 4;
}

/// Whether contributions and sums are 16-bit numbers.
constexpr bool is_half(SketchPrecision precision) {
  return precision == SketchPrecision::kFp16 || precision == SketchPrecision::kBf16;
}

/// How a product becomes a 16-bit contribution (fp16 and bf16 only).
enum class SketchRounding : std::int32_t { kNearest = 0, kStochastic = 1, kDither = 2 };

/// BlockPerm's wiring: f(x) = (multiplier x + offset) mod M, one cycle through all M blocks, and its inverse.
struct BlockWiring {
  std::int64_t multiplier = 1, offset = 1;
  std::int64_t inverse_multiplier = 1, inverse_offset = 0;
};

struct SketchSpec {
  SketchFamily family = SketchFamily::kSparseStack;
  SketchHash hash = SketchHash::kPermuted;
  SketchPrecision precision = SketchPrecision::kFp32;
  SketchRounding rounding = SketchRounding::kNearest;
  std::int32_t zeta = 4;        // nonzeros of every column of S; SparseStack: blocks; BlockPerm: kappa * block_nnz
  std::int64_t d = 0;           // rows of S
  std::int64_t batch_rows = 0;  // T: consecutive rows that are dealt together; batch_rows_for(spec)
  std::uint64_t seed = 0;
  // BlockPerm only.
  InputBlocks input_blocks = InputBlocks::kInterleaved;
  std::int32_t kappa = 0;       // output blocks that an input block feeds
  std::int32_t block_nnz = 0;   // s: nonzeros in each of them
  std::int64_t block_rows = 0;  // B_r: sketch rows of an output block
  std::int64_t total_rows = 0;  // m, with contiguous input blocks; otherwise 0: m is no part of the identity
  BlockWiring wiring;           // make_block_wiring(seed, d / block_rows)
};

/// Limits of a legal spec; validated once, in make_sketch_spec.
inline constexpr std::int32_t kMaxZeta = 1024;
inline constexpr std::int64_t kMaxSketchRows = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaxDealRows = 65536;                      // BlockPerm: rows of one shuffle
inline constexpr std::int64_t kMaxBatchEntries = std::int64_t{1} << 31;  // BlockPerm: T * zeta

}  // namespace tallsketch
