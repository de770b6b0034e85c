// The conversions of products to 16-bit contributions: exhaustive over both formats' numbers, the points between them and,
// for stochastic rounding, over all random patterns that decide.
#include "kernels/rounded_half.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

float value_of(Binary16, std::uint32_t pattern) { return half_to_float(static_cast<std::uint16_t>(pattern)); }
float value_of(Bfloat16, std::uint32_t pattern) { return bfloat16_to_float(static_cast<std::uint16_t>(pattern)); }
std::uint32_t nearest(Binary16, float value) { return float_to_half(value); }
std::uint32_t nearest(Bfloat16, float value) { return float_to_bfloat16(value); }

/// The value of a pattern where infinity is the power of two that the format has no number for.
template <class F>
double value_or_power(std::uint32_t pattern) {
  if ((pattern & 0x7fffU) != kInfinityPattern<F>) return value_of(F{}, pattern);
  return std::ldexp(pattern & 0x8000U ? -1.0 : 1.0, static_cast<int>(F::kBias) + 1);
}

/// What a bracket says q is: its lower end and `above` of the gap. Exact in double.
template <class F>
double value_of_bracket(const Bracket& q) {
  const double lower = value_or_power<F>(q.lower);
  if (q.above == 0) return lower;
  return lower + (value_or_power<F>(q.lower + 1) - lower) * std::ldexp(double(q.above), -32);
}

std::uint32_t random_word(std::int64_t index) { return random_words(3, index, DrawPurpose::kVectors, 0).word[0]; }

/// Floats of every exponent in [2^least, 2^most) with 64 significands each, both signs.
std::vector<float> floats_between(int least, int most) {
  std::vector<float> values;
  for (int e = least; e < most; ++e) {
    for (int k = 0; k < 64; ++k) {
      const std::uint32_t word = random_word(64 * (e + 200) + k);
      const double significand = 1 + std::ldexp(double(k == 0 ? 0 : k == 1 ? 0x7fffffU : word & 0x7fffffU), -23);
      values.push_back(static_cast<float>(std::ldexp(word >> 31 ? -significand : significand, e)));
    }
  }
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("A 16-bit number is its own bracket, and points between two have both as neighbours", "", Binary16,
                   Bfloat16) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
    if ((pattern & 0x7fffU) >= kInfinityPattern<TestType>) continue;
    const double lower = value_or_power<TestType>(pattern), upper = value_or_power<TestType>(pattern + 1);
    for (const std::uint32_t quarter : {0U, 1U, 2U, 3U}) {
      const auto q = static_cast<float>(lower + (upper - lower) * quarter / 4);
      REQUIRE(double(q) == lower + (upper - lower) * quarter / 4);
      const Bracket found = bracket<TestType>(q);
      wrong += found.lower != pattern || found.above != quarter << 30;
      if (quarter != 2) {
        const std::uint32_t next = pattern + (quarter > 2 ? 1 : 0);
        wrong += nearest(TestType{}, q) != next;
      }
    }
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("What is too large is infinite, and a NaN stays one", "", Binary16, Bfloat16) {
  for (const float sign : {1.0F, -1.0F}) {
    const std::uint32_t infinity = kInfinityPattern<TestType> | (sign < 0 ? 0x8000U : 0U);
    const auto top = sign * static_cast<float>(std::ldexp(1.0, static_cast<int>(TestType::kBias) + 1));
    for (const float q : {top, top * 1.5F, sign * INFINITY}) {
      CHECK(bracket<TestType>(q).lower == infinity);
      CHECK(round_stochastically(bracket<TestType>(q), 0) == infinity);
    }
    CHECK(std::isnan(value_of(TestType{}, round_stochastically(bracket<TestType>(sign * std::nanf("")), 0))));
  }
}

TEST_CASE("The mean of stochastic rounding over all 2^16 patterns that decide is the value exactly") {
  // The lower 16 bits decide nothing where 16 or fewer are dropped: both extremes of them are tried.
  const auto wrong = [](auto format, const std::vector<float>& values) {
    using F = decltype(format);
    int count = 0;
    for (const float q : values) {
      const Bracket found = bracket<F>(q);
      for (const std::uint32_t low : {0U, 0xffffU}) {
        std::uint32_t ups = 0;
        for (std::uint32_t high = 0; high < 0x10000U; ++high) {
          ups += round_stochastically(found, high << 16 | low) - found.lower;
        }
        const double lower = value_or_power<F>(found.lower), upper = value_or_power<F>(found.lower + 1);
        count += lower + (upper - lower) * (ups / 65536.0) != q;
      }
    }
    return count;
  };
  CHECK(wrong(Binary16{}, floats_between(-17, 16)) == 0);
  const std::vector<float> wide = floats_between(-126, 127);
  std::vector<float> some;
  for (std::size_t i = 0; i < wide.size(); i += 7) some.push_back(wide[i]);
  CHECK(wrong(Bfloat16{}, some) == 0);
}

TEST_CASE("Stochastic rounding is exactly unbiased over all 2^32 patterns from 2^-33 on, and short of 2^-56 below") {
  // `above` of 2^32 patterns round away from zero: the mean is the value of the bracket.
  for (const float q : floats_between(-33, 16)) {
    const Bracket found = bracket<Binary16>(q);
    INFO(q);
    REQUIRE(value_of_bracket<Binary16>(found) == q);
    if (found.above == 0) continue;
    REQUIRE(round_stochastically(found, found.above - 1) == found.lower + 1);
    REQUIRE(round_stochastically(found, found.above) == found.lower);
  }
  for (const float q : floats_between(-149, -33)) {
    const double missing = std::fabs(q) - std::fabs(value_of_bracket<Binary16>(bracket<Binary16>(q)));
    INFO(q);
    REQUIRE(missing >= 0);
    REQUIRE(missing < 0x1p-56);
  }
  for (const float q : floats_between(-149, 127)) REQUIRE(value_of_bracket<Bfloat16>(bracket<Bfloat16>(q)) == q);
}

TEST_CASE("The windows of random bits have upper halves of their own and cover all 128 bits") {
  const RandomWords words = {{0x00010000U, 0x00030002U, 0x00050004U, 0x00070006U}};
  const std::uint32_t expected[8] = {0x00010000U, 0x00020001U, 0x00030002U, 0x00040003U,
                                     0x00050004U, 0x00060005U, 0x00070006U, 0x00000007U};
  for (int k = 0; k < 8; ++k) CHECK(rounding_bits(words, k) == expected[k]);
}

TEST_CASE("Random words differ between rows, pairs, groups of blocks and seeds") {
  std::set<std::uint64_t> seen;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
      for (const std::uint32_t pair : {0U, 1U, 256U, 0xffffffU}) {
        for (const std::uint32_t group : {0U, 1U, 255U}) {
          seen.insert(word_pair(rounding_words(seed, row, pair, group), 0));
        }
      }
    }
  }
  CHECK(seen.size() == 2 * 3 * 4 * 3);
}

TEMPLATE_TEST_CASE("Dither leaves 16-bit numbers as they are", "", Binary16, Bfloat16) {
  const std::uint32_t extremes[] = {0, 1, 0x7fffffffU, 0x80000000U, 0x80000001U, 0xffffffffU};
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000U; ++pattern) {
    if ((pattern & 0x7fffU) >= kInfinityPattern<TestType>) continue;
    const float q = value_of(TestType{}, pattern);
    for (const std::uint32_t random : extremes) {
      wrong += value_of(TestType{}, nearest(TestType{}, dithered<TestType>(q, random))) != q;  // -0 may become 0
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Dither at the upper end of a binade, where its width is one gap, rounds up in proportion") {
  for (const auto& [q, share] : {std::pair<float, double>{2047.5F, 0.5}, {2047.25F, 0.25}, {-2047.75F, 0.75}}) {
    int away = 0;
    constexpr int kDraws = 1 << 16;
    for (std::uint32_t k = 0; k < kDraws; ++k) {
      const std::uint32_t pattern = float_to_half(dithered<Binary16>(q, k << 16));
      away += std::fabs(half_to_float(static_cast<std::uint16_t>(pattern))) > 2047.6F;
    }
    INFO(q);
    CHECK(std::fabs(double(away) / kDraws - share) < 0.001);  // the width is 2047.5 / 2048 of a gap
  }
}

TEMPLATE_TEST_CASE("Losses are finite products turned infinite and nonzero products turned zero", "", Binary16,
                   Bfloat16) {
  const std::uint32_t infinity = kInfinityPattern<TestType>;
  for (const std::uint32_t sign : {0U, 0x8000U}) {
    CHECK(has_overflowed<TestType>(1e30F, infinity | sign));
    CHECK(!has_overflowed<TestType>(INFINITY, infinity | sign));
    CHECK(!has_overflowed<TestType>(std::nanf(""), infinity | sign));
    CHECK(!has_overflowed<TestType>(1e30F, (infinity - 1) | sign));
    CHECK(!has_overflowed<TestType>(std::nanf(""), (infinity + 1) | sign));
    CHECK(was_flushed(-1e-30F, sign));
    CHECK(!was_flushed(0.0F, sign));
    CHECK(!was_flushed(-0.0F, sign));
    CHECK(!was_flushed(1e-30F, 1 | sign));
  }
}

TEMPLATE_TEST_CASE("A safe product is never lost, whatever the rounding", "", Binary16, Bfloat16) {
  CHECK(!is_safe<TestType>(0.0F));
  CHECK(!is_safe<TestType>(std::nanf("")));
  CHECK(!is_safe<TestType>(INFINITY));
  CHECK(!is_safe<TestType>(std::nextafterf(TestType::kSmallest, 0.0F)));
  CHECK(!is_safe<TestType>(std::nextafterf(TestType::kSafe, INFINITY)));
  for (const float q : {TestType::kSmallest, -TestType::kSmallest, TestType::kSafe, -TestType::kSafe, 1.0F}) {
    REQUIRE(is_safe<TestType>(q));
    for (const std::uint32_t random : {0U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
      for (const std::uint32_t pattern : {nearest(TestType{}, q), round_stochastically(bracket<TestType>(q), random),
                                          nearest(TestType{}, dithered<TestType>(q, random))}) {
        CHECK(!has_overflowed<TestType>(q, pattern));
        CHECK(!was_flushed(q, pattern));
      }
    }
  }
}
