// The ladder of attempts: Gram matrix -> sketch, 16-bit -> FP32 -> FP64; every step sees more.
#include <optional>
#include <vector>

#include "src/attempt.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

Attempt sketch_in(SketchPrecision precision) {
  Attempt attempt;
  attempt.sketch.precision = precision;
  return attempt;
}

Attempt gram() {
  Attempt attempt;
  attempt.compression = Compression::kGram;
  return attempt;
}

/// All attempts from this one on, the first included.
std::vector<Attempt> ladder(const Attempt& first) {
  std::vector<Attempt> attempts = {first};
  while (const std::optional<Attempt> finer = finer_attempt(attempts.back())) {
    attempts.push_back(*finer);
    REQUIRE(attempts.size() < 10);
  }
  return attempts;
}

std::vector<std::string> words(const std::vector<Attempt>& attempts) {
  std::vector<std::string> result;
  for (const Attempt& attempt : attempts) result.push_back(describe(attempt));
  return result;
}

using Lines = std::vector<std::string>;
}  // namespace

TEST_CASE("A Gram matrix gives way to an FP64 sketch, 16-bit sketches to FP32 and FP64, and then nothing is left") {
  CHECK(words(ladder(gram())) == Lines{"FP64 Gram matrix", "fp64 sketch"});
  CHECK(words(ladder(sketch_in(SketchPrecision::kFp16))) == Lines{"fp16 sketch", "fp32 sketch", "fp64 sketch"});
  CHECK(words(ladder(sketch_in(SketchPrecision::kBf16))) == Lines{"bf16 sketch", "fp32 sketch", "fp64 sketch"});
  CHECK(words(ladder(sketch_in(SketchPrecision::kFp32))) == Lines{"fp32 sketch", "fp64 sketch"});
  CHECK(words(ladder(sketch_in(SketchPrecision::kFp64))) == Lines{"fp64 sketch"});
}

TEST_CASE("Every step resolves more") {
  for (const Attempt& first : {sketch_in(SketchPrecision::kBf16), sketch_in(SketchPrecision::kFp16),
                               sketch_in(SketchPrecision::kFp32), gram()}) {
    const std::vector<Attempt> attempts = ladder(first);
    for (std::size_t i = 1; i < attempts.size(); ++i) {
      CHECK(resolved_condition(attempts[i]) > resolved_condition(attempts[i - 1]));
    }
  }
  CHECK(resolved_condition(gram()) < 1e8);  // where squares lose everything
}

TEST_CASE("A finer attempt keeps the shape of the sketch, and drops what only the coarser one could do") {
  Attempt coarse = sketch_in(SketchPrecision::kFp16);
  coarse.sketch.rounding = SketchRounding::kStochastic;
  coarse.sketch.reduce = ReducePrecision::kFp16;
  coarse.sketch.oversample = 7;
  coarse.sketch.seed = 99;
  coarse.sketch.zeta = 8;
  const std::vector<Attempt> attempts = ladder(coarse);
  REQUIRE(attempts.size() == 3);
  for (const Attempt& attempt : attempts) {
    CHECK(attempt.compression == Compression::kSketch);
    CHECK(attempt.sketch.oversample == 7);
    CHECK(attempt.sketch.seed == 99);
    CHECK(attempt.sketch.zeta == 8);
  }
  CHECK(attempts[1].sketch.rounding == SketchRounding::kNearest);
  CHECK(attempts[1].sketch.reduce == ReducePrecision::kFp16);  // halves can carry an FP32 sketch, not an FP64 one
  CHECK(attempts[2].sketch.reduce == ReducePrecision::kFp32);
}
