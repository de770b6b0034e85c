// The emulated 16-bit sketch against its definition, element by element: products in FP32, every contribution converted by
// itself, every sum rounded once from the exact one. On the GPU the same sums come in another order (cuda.sketch).
#include "src/host_half_sketch.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/half_factors.h"
#include "tests/support/catch.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 1500,
                       kCols = 67;  // more than one piece of rows, more than one slice of columns, both odd

/// Elements of size 2^exponent, some of them zero; the same at every call.
std::vector<float> elements(int exponent) {
  std::vector<float> values(static_cast<std::size_t>(kRows * kCols));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = random_words(7, static_cast<std::int64_t>(i), DrawPurpose::kVectors, 0).word[0];
    values[i] = word % 50 == 0 ? 0.0F : std::ldexp(static_cast<float>(static_cast<std::int32_t>(word)), exponent - 31);
  }
  return values;
}

SlabView view(const std::vector<float>& a) { return {a.data(), kRows, kCols, kCols, ElementType::kFloat32, 0}; }

double value_of(const SketchSpec& spec, std::uint32_t pattern) {
  return spec.precision == SketchPrecision::kFp16 ? half_to_float(static_cast<std::uint16_t>(pattern))
                                                  : bfloat16_to_float(static_cast<std::uint16_t>(pattern));
}

/// A double rounded once.
double rounded_once(const SketchSpec& spec, double value) {
  return spec.precision == SketchPrecision::kFp16 ? half_to_float(double_to_half(value))
                                                  : bfloat16_to_float(double_to_bfloat16(value));
}

template <class Format>
double contribution(const SketchSpec& spec, float product, std::int64_t row, std::int32_t block, std::int64_t column) {
  const RandomWords words = rounding_words(spec.seed, row, static_cast<std::uint32_t>(column / 2),
                                           static_cast<std::uint32_t>(block / kBlocksPerDraw));
  const std::uint32_t random = rounding_bits(words, 2 * (block % kBlocksPerDraw) + static_cast<int>(column % 2));
  switch (spec.rounding) {
    case SketchRounding::kNearest: return rounded_once(spec, product);
    case SketchRounding::kStochastic: return value_of(spec, round_stochastically(bracket<Format>(product), random));
    case SketchRounding::kDither: return rounded_once(spec, dithered<Format>(product, random));
  }
  return 0;
}

/// (d, kCols), the definition without scaling, for a factor of all columns that is a power of two.
std::vector<double> expected_sketch(const SketchSpec& spec, const std::vector<float>& a, float factor) {
  std::vector<double> sketch(static_cast<std::size_t>(spec.d * kCols));
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int32_t t = 0; t < spec.zeta; ++t) {
      const SketchEntry entry = sketch_entry(spec, i, t);
      for (std::int64_t j = 0; j < kCols; ++j) {
        const float product = a[static_cast<std::size_t>(i * kCols + j)] * factor;
        const double c = spec.precision == SketchPrecision::kFp16 ? contribution<Binary16>(spec, product, i, t, j)
                                                                  : contribution<Bfloat16>(spec, product, i, t, j);
        double& sum = sketch[static_cast<std::size_t>(entry.sketch_row * kCols + j)];
        sum = rounded_once(spec, sum + (entry.negative ? -c : c));
      }
    }
  }
  for (double& sum : sketch) sum /= factor;
  return sketch;
}

std::vector<float> sketch_of(const SketchSpec& spec, const std::vector<float>& a, ScalingChoice scaling, int threads,
                             RoundingLosses* losses = nullptr) {
  const Communicator comm(MPI_COMM_WORLD);
  HostHalfSketch half(spec, kCols, 0, scaling, threads);
  if (half.scales()) {
    half.measure(view(a));
    half.choose_factors(comm);
  }
  half.add(view(a), {});
  std::vector<float> sketch(static_cast<std::size_t>(spec.d * kCols));
  half.finish(sketch.data());
  if (losses != nullptr) *losses = half.losses();
  return sketch;
}

SketchSpec half_spec(SketchPrecision precision, SketchRounding rounding, int zeta = 4) {
  SketchSpec spec = make_spec(SketchHash::kPermuted, 32 * zeta, zeta);
  spec.precision = precision;
  spec.rounding = rounding;
  return spec;
}

}  // namespace

TEST_CASE("An emulated 16-bit sketch is the sum that its definition says, rounded at every addition") {
  for (const SketchPrecision precision : {SketchPrecision::kFp16, SketchPrecision::kBf16}) {
    for (const SketchRounding rounding :
         {SketchRounding::kNearest, SketchRounding::kStochastic, SketchRounding::kDither}) {
      for (const int zeta : {1, 4, 9}) {       // 9: three groups of random words
        for (const int exponent : {-20, 0}) {  // subnormal halves, normal ones
          INFO("precision " << static_cast<int>(precision) << " rounding " << static_cast<int>(rounding) << " zeta "
                            << zeta << " exponent " << exponent);
          const SketchSpec spec = half_spec(precision, rounding, zeta);
          const std::vector<float> a = elements(exponent);
          // BF16 with automatic scaling: factor 1, so that nothing but the definition is between input and sketch.
          const bool bf16 = precision == SketchPrecision::kBf16;
          const float factor = bf16 || zeta != 4 ? 1.0F : 0.5F;
          if (!bf16 && zeta == 9) continue;  // 1 / 3 is no power of two
          const std::vector<float> sketch = sketch_of(spec, a, bf16 ? ScalingChoice::kAuto : ScalingChoice::kNone, 1);
          const std::vector<double> expected = expected_sketch(spec, a, factor);
          CHECK(std::vector<double>(sketch.begin(), sketch.end()) == expected);
          CHECK(sketch_of(spec, a, bf16 ? ScalingChoice::kAuto : ScalingChoice::kNone, 3) == sketch);
        }
      }
    }
  }
}

TEST_CASE("With automatic scaling a power of two passes through an fp16 sketch unchanged, in range or not") {
  const SketchSpec spec = half_spec(SketchPrecision::kFp16, SketchRounding::kNearest);
  const std::vector<float> reference = sketch_of(spec, elements(0), ScalingChoice::kAuto, 2);
  for (const int exponent : {-60, -24, 15, 60}) {
    std::vector<float> sketch = sketch_of(spec, elements(exponent), ScalingChoice::kAuto, 2);
    for (float& value : sketch) value = std::ldexp(value, -exponent);
    CHECK(sketch == reference);
  }
}

TEST_CASE("What 16 bits cannot take is counted, contribution by contribution") {
  const SketchSpec spec = half_spec(SketchPrecision::kFp16, SketchRounding::kNearest);
  std::vector<float> a(static_cast<std::size_t>(kRows * kCols));
  a[3] = 0x1p-24F;                                  // times 1/2: a tie, to zero
  a[70] = 0x1.01p-24F;                              // stays
  a[200] = 0x1p17F;                                 // times 1/2: infinite
  a[201] = 131000;                                  // 65500: rounds to the largest half
  a[202] = std::numeric_limits<float>::infinity();  // no loss: it was infinite before
  RoundingLosses losses;
  sketch_of(spec, a, ScalingChoice::kNone, 2, &losses);
  CHECK(losses.flushed == 4);
  CHECK(losses.overflowed == 4);
}

TEST_CASE("Column factors bring the largest element, or eight deviations of a bucket sum, near 2^12") {
  const SketchSpec spec = half_spec(SketchPrecision::kFp16, SketchRounding::kNearest);  // d = 128, zeta = 4
  CHECK(half_factor_of_column(spec, 1, 1) == 0x1p12);                                   // 8 sqrt(4 / 128) = 1.41
  CHECK(half_factor_of_column(spec, 8, 1) == 0x1p9);                                    // the element is larger
  CHECK(half_factor_of_column(spec, 1, 1024) == 0x1p7);                                 // 45.3
  CHECK(half_factor_of_column(spec, 0, 0) == 1);                                        // a column of zeros
  CHECK(half_factor_of_column(spec, 0x1p-149F, 0) == 0x1p127);  // the factor itself stays finite
  CHECK(fixed_half_factor(spec, ScalingChoice::kNone) == 0.5);
  CHECK(fixed_half_factor(spec, ScalingChoice::kAuto) == 1);
}
