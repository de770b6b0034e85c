#include "src/attempt.h"

#include <fmt/format.h>

namespace tallsketch {

double resolved_condition(const Attempt& attempt) {
  if (attempt.compression == Compression::kGram) return 1e7;
  switch (attempt.sketch.precision) {
    case SketchPrecision::kBf16: return 1e3;
    case SketchPrecision::kFp16: return 1e4;
    case SketchPrecision::kFp32: return 1e6;
    case SketchPrecision::kFp64: return 1e14;
  }
  return 0;
}

std::optional<Attempt> finer_attempt(const Attempt& attempt, ElementType stored) {
  Attempt finer = attempt;
  if (attempt.compression == Compression::kGram) {
    finer.compression = Compression::kSketch;
    // A condition that the Gram matrix loses is beyond an FP32 sketch too.
    if (stored == ElementType::kFloat64) finer.sketch.precision = SketchPrecision::kFp64;
  } else if (is_half(attempt.sketch.precision)) {
    finer.sketch.precision = SketchPrecision::kFp32;
  } else if (attempt.sketch.precision == SketchPrecision::kFp32 && stored == ElementType::kFloat64) {
    finer.sketch.precision = SketchPrecision::kFp64;
  } else {
    return std::nullopt;
  }
  finer.sketch.rounding = SketchRounding::kNearest;
  if (finer.sketch.precision == SketchPrecision::kFp64) finer.sketch.reduce = ReducePrecision::kFp32;
  return finer;
}

std::string describe(const Attempt& attempt) {
  if (attempt.compression == Compression::kGram) return "FP64 Gram matrix";
  return fmt::format("{} sketch", to_word(attempt.sketch.precision));
}

}  // namespace tallsketch
