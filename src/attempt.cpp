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

double stored_roundoff(ElementType stored) { return stored == ElementType::kFloat64 ? 0x1p-53 : 0x1p-24; }

std::optional<Attempt> finer_attempt(const Attempt& attempt) {
  Attempt finer = attempt;
  finer.fixed_rows = 0;
  finer.from_file = false;
  if (attempt.compression == Compression::kGram) {
    finer.compression = Compression::kSketch;
    // A condition that the Gram matrix loses is beyond an FP32 sketch too.
    finer.sketch.precision = SketchPrecision::kFp64;
  } else if (is_half(attempt.sketch.precision)) {
    finer.sketch.precision = SketchPrecision::kFp32;
  } else if (attempt.sketch.precision == SketchPrecision::kFp32) {
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
