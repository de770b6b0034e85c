// SketchSpec: the identity of a sketch, as plain data. Two equal specs define the same S, wherever it is applied.
// Used by every kernel, both backends, the plan and the report. Made by make_sketch_spec (src/plan.h).
#pragma once

#include <cstdint>

namespace tallsketch {

enum class SketchFamily : std::int32_t { kSparseStack = 0 };

/// How a row finds its bucket inside a block (sketches.md): without or with replacement inside a batch.
enum class SketchHash : std::int32_t { kPermuted = 0, kIndependent = 1 };

/// Number format of the sketch of A while it is accumulated. The sketch of b is never below FP32.
enum class SketchPrecision : std::int32_t { kFp32 = 0, kFp16 = 1 };

struct SketchSpec {
  SketchFamily family = SketchFamily::kSparseStack;
  SketchHash hash = SketchHash::kPermuted;
  SketchPrecision precision = SketchPrecision::kFp32;
  std::int32_t zeta = 4;        // blocks, and nonzeros of every column of S
  std::int64_t d = 0;           // rows of S
  std::int64_t batch_rows = 0;  // T: rows that share one bijection; batch_rows_for(d, zeta)
  std::uint64_t seed = 0;
};

/// Limits of a legal spec; validated once, in make_sketch_spec.
inline constexpr std::int32_t kMaxZeta = 1024;
inline constexpr std::int64_t kMaxSketchRows = std::int64_t{1} << 30;

}  // namespace tallsketch
