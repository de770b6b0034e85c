// The random words against Random123's published vectors, and against a second Philox written from the paper.
#include "kernels/philox.h"

#include <cstdint>
#include <vector>

#include "tests/support/catch.h"

namespace {

using namespace tallsketch;

/// Philox4x32-10 as the paper's section 3.3 states it, without Random123.
std::vector<std::uint32_t> naive_philox(std::vector<std::uint32_t> c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

std::vector<std::uint32_t> as_vector(const RandomWords& w) { return {w.word[0], w.word[1], w.word[2], w.word[3]}; }

}  // namespace

TEST_CASE("random words are the published Philox4x32-10 vectors of Random123") {
  // kat_vectors of Random123 1.14: counter and key of zeros, of ones, and of the digits of pi.
  CHECK(as_vector(random_words(0, 0, static_cast<DrawPurpose>(0), 0)) ==
        std::vector<std::uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(as_vector(random_words(~std::uint64_t{0}, -1, static_cast<DrawPurpose>(0xffffffffU), 0xffffffffU)) ==
        std::vector<std::uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(as_vector(random_words(0x299f31d0a4093822U, static_cast<std::int64_t>(0x85a308d3243f6a88U),
                               static_cast<DrawPurpose>(0x13198a2eU), 0x03707344U)) ==
        std::vector<std::uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random words put the seed into the key and index, purpose and stream into the counter, low word first") {
  int wrong = 0;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{0x8000000000000001U}}) {
    for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, std::int64_t{0x123456789abcdefLL}}) {
      for (const DrawPurpose purpose : {DrawPurpose::kSigns, DrawPurpose::kIndependentBuckets, DrawPurpose::kBatchKeys,
                                        DrawPurpose::kMatrixEntries, DrawPurpose::kNoise, DrawPurpose::kVectors}) {
        for (const std::uint32_t stream : {0U, 1U, 0xfffffffeU}) {
          const auto expected =
              naive_philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                            static_cast<std::uint32_t>(purpose), stream},
                           static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
          wrong += as_vector(random_words(seed, index, purpose, stream)) != expected;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("no two purposes share a number, so that no two uses share words") {
  CHECK(static_cast<int>(DrawPurpose::kSigns) == 0);
  CHECK(static_cast<int>(DrawPurpose::kIndependentBuckets) == 1);
  CHECK(static_cast<int>(DrawPurpose::kBatchKeys) == 2);
  CHECK(static_cast<int>(DrawPurpose::kMatrixEntries) == 3);
  CHECK(static_cast<int>(DrawPurpose::kNoise) == 4);
  CHECK(static_cast<int>(DrawPurpose::kVectors) == 5);
}

TEST_CASE("a word pair is little-endian: the lower word first") {
  const RandomWords words{{1, 2, 3, 4}};
  CHECK(word_pair(words, 0) == 0x0000000200000001U);
  CHECK(word_pair(words, 1) == 0x0000000400000003U);
}

TEST_CASE("bounded is the floor of random * bound / 2^64, from the smallest to the largest bound") {
  const std::uint64_t all = ~std::uint64_t{0};
  for (const std::uint32_t bound : {1U, 2U, 3U, 17U, 257U, 65536U, 1U << 30, 0xffffffffU}) {
    INFO("bound " << bound);
    CHECK(bounded(0, bound) == 0);
    CHECK(bounded(all, bound) == bound - 1);
    int wrong = 0;
    const std::uint64_t step = all / bound;
    for (std::uint32_t k = 1; k < bound && k < 1000; ++k) {
      // The first random number whose result is k is ceil(k * 2^64 / bound).
      const auto edge = static_cast<std::uint64_t>((((static_cast<unsigned __int128>(k)) << 64) + bound - 1) / bound);
      wrong += bounded(edge, bound) != k;
      wrong += bounded(edge - 1, bound) != k - 1;
      wrong += bounded(edge + step / 2, bound) != k;
    }
    CHECK(wrong == 0);
  }
}
