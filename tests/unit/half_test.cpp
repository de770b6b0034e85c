// The 16-bit conversions against formulas written here, exhaustively where the 16-bit side drives.
#include "kernels/half.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/philox.h"
#include "tests/support/catch.h"

namespace {

using namespace tallsketch;

/// A 16-bit format by its two numbers; the functions below know nothing else about it.
struct Format {
  int fraction_bits;
  int bias;
  std::uint16_t infinity() const { return static_cast<std::uint16_t>((2 * bias + 1) << fraction_bits); }
  int smallest_power() const { return 1 - bias - fraction_bits; }  // the smallest subnormal is 2^this
};
constexpr Format kHalf{10, 15};
constexpr Format kBfloat16{7, 127};

/// (-1)^s 2^(e - bias) (1 + f / 2^bits), and 2^(1 - bias) f / 2^bits for e = 0. Finite patterns only.
double value_by_formula(Format format, std::uint16_t pattern) {
  const int exponent = (pattern & 0x7fff) >> format.fraction_bits;
  const double fraction = std::ldexp(pattern & ((1 << format.fraction_bits) - 1), -format.fraction_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - format.bias) : std::ldexp(1.0 + fraction, exponent - format.bias);
  return (pattern & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Nearest-even by arithmetic: value / unit in the last place, rounded by the FPU, and looked up again.
std::uint16_t nearest_by_arithmetic(Format format, double value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | format.infinity());
  int power = magnitude == 0 ? -5000 : std::ilogb(magnitude);
  if (power < 1 - format.bias) power = 1 - format.bias;
  // In units of the last place; exact unless it is far below one half, where it rounds to 0 anyway.
  const double units = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - power));
  // units = 2^fraction_bits means the hidden bit: adding it to the exponent field carries as the format wants.
  const double pattern = std::ldexp(power - (1 - format.bias), format.fraction_bits) + units;
  return static_cast<std::uint16_t>(sign |
                                    (pattern >= format.infinity() ? format.infinity() : static_cast<int>(pattern)));
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

std::uint16_t narrow(Format format, float value) {
  return format.bias == 15 ? float_to_half(value) : float_to_bfloat16(value);
}
std::uint16_t narrow(Format format, double value) {
  return format.bias == 15 ? double_to_half(value) : double_to_bfloat16(value);
}
float widen(Format format, std::uint16_t pattern) {
  return format.bias == 15 ? half_to_float(pattern) : bfloat16_to_float(pattern);
}
double widen_to_double(Format format, std::uint16_t pattern) {
  return format.bias == 15 ? half_to_double(pattern) : bfloat16_to_double(pattern);
}

/// One ulp of the type itself towards +-infinity, as bit patterns; for values > 0.
float next(float x) { return std::nextafterf(x, std::numeric_limits<float>::infinity()); }
float previous(float x) { return std::nextafterf(x, 0.0F); }
double next(double x) { return std::nextafter(x, std::numeric_limits<double>::infinity()); }
double previous(double x) { return std::nextafter(x, 0.0); }

/// Counts wrong results at the boundary between two neighbouring patterns, on both signs.
template <class T>
int wrong_at_boundary(Format format, std::uint16_t lower) {
  const auto upper = static_cast<std::uint16_t>(lower + 1);
  // The value above the largest finite one is the power of two that infinity's pattern would have.
  const double above = upper == format.infinity() ? std::ldexp(1.0, format.bias + 1) : value_by_formula(format, upper);
  const double middle = 0.5 * (value_by_formula(format, lower) + above);
  const T tie = static_cast<T>(middle);
  REQUIRE(static_cast<double>(tie) == middle);
  const std::uint16_t even = (lower & 1) == 0 ? lower : upper;
  const T inputs[] = {tie,
                      previous(tie),
                      next(tie),
                      static_cast<T>(value_by_formula(format, lower)),
                      next(static_cast<T>(value_by_formula(format, lower))),
                      previous(static_cast<T>(above))};
  const std::uint16_t expected[] = {even, lower, upper, lower, lower, upper};
  int wrong = 0;
  for (int i = 0; i < 6; ++i) {
    wrong += narrow(format, inputs[i]) != expected[i];
    wrong += narrow(format, -inputs[i]) != (expected[i] | 0x8000);
  }
  return wrong;
}

double random_bits_as_double(std::int64_t index) {
  const std::uint64_t bits = word_pair(random_words(1, index, DrawPurpose::kVectors, 0), 0);
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

TEST_CASE("every finite 16-bit pattern widens to the value of its formula and narrows back to itself") {
  for (const Format format : {kHalf, kBfloat16}) {
    int wrong = 0;
    for (int p = 0; p < 65536; ++p) {
      const auto pattern = static_cast<std::uint16_t>(p);
      if ((pattern & 0x7fff) >= format.infinity()) continue;
      const double expected = value_by_formula(format, pattern);
      wrong += !same_bits(static_cast<double>(widen(format, pattern)), expected);
      wrong += !same_bits(widen_to_double(format, pattern), expected);
      wrong += narrow(format, widen(format, pattern)) != pattern;
      wrong += narrow(format, expected) != pattern;
    }
    INFO("bias " << format.bias);
    CHECK(wrong == 0);
  }
}

TEST_CASE("infinities and NaNs keep their kind and sign in both directions") {
  for (const Format format : {kHalf, kBfloat16}) {
    const std::uint16_t infinity = format.infinity();
    CHECK(widen(format, infinity) == std::numeric_limits<float>::infinity());
    CHECK(widen(format, infinity | 0x8000) == -std::numeric_limits<float>::infinity());
    CHECK(narrow(format, std::numeric_limits<float>::infinity()) == infinity);
    CHECK(narrow(format, -std::numeric_limits<double>::infinity()) == (infinity | 0x8000));
    int wrong = 0;
    const auto quiet = static_cast<std::uint16_t>(1 << (format.fraction_bits - 1));
    for (int f = 1; f < (1 << format.fraction_bits); ++f) {
      for (const int sign : {0, 0x8000}) {
        const auto pattern = static_cast<std::uint16_t>(sign | infinity | f);
        const float wide = widen(format, pattern);
        wrong += !std::isnan(wide) || std::signbit(wide) != (sign != 0);
        wrong += !std::isnan(widen_to_double(format, pattern));
        wrong += narrow(format, wide) != (pattern | quiet);
        wrong += narrow(format, widen_to_double(format, pattern)) != (pattern | quiet);
      }
    }
    CHECK(wrong == 0);
    // A NaN whose payload lies only in the bits that narrowing drops must not become an infinity.
    CHECK(narrow(format, float_of_bits(0x7f800001U)) == (infinity | quiet));
    CHECK(narrow(format, float_of_bits(0xff800001U)) == (0x8000 | infinity | quiet));
    const std::uint64_t bits = 0xfff0000000000001U;
    double value;
    std::memcpy(&value, &bits, sizeof value);
    CHECK(narrow(format, value) == (0x8000 | infinity | quiet));
  }
}

TEST_CASE("narrowing to half is right at the midpoint of all neighbouring halves and one ulp beside it") {
  int wrong = 0;
  for (int p = 0; p < kHalf.infinity(); ++p) {
    wrong += wrong_at_boundary<float>(kHalf, static_cast<std::uint16_t>(p));
    wrong += wrong_at_boundary<double>(kHalf, static_cast<std::uint16_t>(p));
  }
  CHECK(wrong == 0);
}

TEST_CASE("narrowing to bfloat16 is right at the midpoint of all neighbouring values and one ulp beside it") {
  int wrong = 0;
  for (int p = 0; p < kBfloat16.infinity(); ++p) {
    wrong += wrong_at_boundary<float>(kBfloat16, static_cast<std::uint16_t>(p));
    wrong += wrong_at_boundary<double>(kBfloat16, static_cast<std::uint16_t>(p));
  }
  CHECK(wrong == 0);
}

TEST_CASE("narrowing agrees with arithmetic on random bits of every exponent") {
  int wrong = 0;
  for (std::int64_t i = 0; i < 400000; ++i) {
    const double any = random_bits_as_double(i);  // seed 1
    if (!std::isfinite(any)) continue;
    // As drawn: 2^-1074 to 2^1024. Then the same digits with exponents around each format's range.
    int unused = 0;
    const double digits = std::frexp(any, &unused);
    for (const double value : {any, std::ldexp(digits, static_cast<int>(i % 48) - 29),
                               std::ldexp(digits, static_cast<int>(i % 270) - 138)}) {
      for (const Format format : {kHalf, kBfloat16}) {
        wrong += narrow(format, value) != nearest_by_arithmetic(format, value);
        const auto single = static_cast<float>(value);
        wrong += narrow(format, single) != nearest_by_arithmetic(format, static_cast<double>(single));
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a double is rounded once, not by way of float") {
  // 1 + 2^-11 is the tie between 1 and the next half; 2^-40 more is lost in a float, and would round down to even.
  CHECK(double_to_half(1.0 + 0x1p-11 + 0x1p-40) == 0x3c01);
  CHECK(float_to_half(static_cast<float>(1.0 + 0x1p-11 + 0x1p-40)) == 0x3c00);
  CHECK(double_to_half(1.0 + 3 * 0x1p-11 - 0x1p-40) == 0x3c01);
  CHECK(float_to_half(static_cast<float>(1.0 + 3 * 0x1p-11 - 0x1p-40)) == 0x3c02);
  CHECK(double_to_half(0x1p-25 + 0x1p-77) == 0x0001);
  CHECK(double_to_bfloat16(1.0 + 0x1p-8 + 0x1p-40) == 0x3f81);
  CHECK(double_to_bfloat16(0x1p-134 * (1 + 0x1p-52)) == 0x0001);
}

TEST_CASE("case C-05: the values that HDF5 narrows wrongly, and the limits of the range") {
  struct Case {
    double value;
    std::uint16_t half;
  };
  // Right-hand sides: Python's struct.pack('>e', v), an implementation that is not ours; 65520 and 1e5 overflow.
  const std::vector<Case> cases = {{1.5249285751529568e-5, 0x0100},
                                   {-9.765527343750e-4, 0x9400},
                                   {65520.0, 0x7c00},
                                   {1e5, 0x7c00},
                                   {5.9e-8, 0x0001},
                                   {2.9e-8, 0x0000},
                                   {-2.9e-8, 0x8000},
                                   {65504.0, 0x7bff},
                                   {65519.99, 0x7bff},
                                   {-65520.0, 0xfc00},
                                   {1e300, 0x7c00},
                                   {1e-300, 0x0000},
                                   {-5e-324, 0x8000},
                                   {0.0, 0x0000},
                                   {-0.0, 0x8000}};
  for (const Case& c : cases) {
    INFO("value " << c.value);
    CHECK(double_to_half(c.value) == c.half);
    CHECK(float_to_half(static_cast<float>(c.value)) == c.half);
  }
  CHECK(float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_half(std::numeric_limits<float>::denorm_min()) == 0x0000);
}
