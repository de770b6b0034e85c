// The rule of S against a second, naive statement of it that shares no code with the header: what the dense oracle and
// every kernel take on trust is checked here.
#include "kernels/sketch_rule.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

namespace {

using namespace tallsketch;

SketchSpec make_permuted(std::int64_t buckets, std::int32_t zeta, std::int64_t batch_rows, std::uint64_t seed) {
  SketchSpec spec = make_spec(SketchHash::kPermuted, buckets * zeta, zeta, seed);
  spec.batch_rows = batch_rows;
  return spec;
}

// The naive rule ----------------------------------------------------------------------------------------------------

/// Philox4x32-10 from the paper: key = seed, counter = (index low, index high, purpose, stream).
std::vector<std::uint32_t> naive_words(std::uint64_t seed, std::int64_t index, std::uint32_t purpose,
                                       std::uint32_t stream) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), purpose, stream};
  auto k0 = static_cast<std::uint32_t>(seed);
  auto k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
                                   static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {c[0], c[1], c[2], c[3]};
}

/// Bit (row mod 128) of the 128 bits drawn for 128 consecutive rows of a block; purpose 0.
bool naive_negative(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  const std::vector<std::uint32_t> words = naive_words(spec.seed, row / 128, 0, static_cast<std::uint32_t>(block));
  const std::int64_t bit = row % 128;
  return ((words[static_cast<std::size_t>(bit / 32)] >> (bit % 32)) & 1U) == 1U;
}

/// Sizes and begins of the blocks by dealing d rows out, the longer blocks first.
std::vector<std::int64_t> naive_begins(std::int64_t d, std::int32_t zeta) {
  std::vector<std::int64_t> begins = {0};
  std::int64_t left = d;
  for (std::int32_t t = 0; t < zeta; ++t) {
    const std::int64_t blocks_left = zeta - t;
    const std::int64_t size = (left + blocks_left - 1) / blocks_left;
    begins.push_back(begins.back() + size);
    left -= size;
  }
  return begins;
}

/// Hash `independent`: floor(64 random bits * size / 2^64); a draw of purpose 1 serves blocks 2k and 2k + 1.
std::int64_t naive_independent_row(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  const std::vector<std::int64_t> begins = naive_begins(spec.d, spec.zeta);
  const auto t = static_cast<std::size_t>(block);
  const std::vector<std::uint32_t> words = naive_words(spec.seed, row, 1, static_cast<std::uint32_t>(block / 2));
  const std::size_t half = t % 2;
  const auto random = (static_cast<unsigned __int128>(words[2 * half + 1]) << 32) + words[2 * half];
  const auto size = static_cast<unsigned __int128>(begins[t + 1] - begins[t]);
  return begins[t] + static_cast<std::int64_t>((random * size) >> 64);
}

/// The network in one direction, one round at a time: halves of floor(b/2) and ceil(b/2) bits of the smallest power
/// of two >= size (at least 4); three key words, used again rotated by 16 and shifted by a constant; walked until <
/// size.
std::int64_t naive_image(std::int64_t size, const std::vector<std::uint32_t>& keys, std::int64_t position) {
  int bits = 2;
  while ((std::int64_t{1} << bits) < size) ++bits;
  const int right_bits = (bits + 1) / 2;
  const int left_bits = bits - right_bits;
  std::int64_t x = position;
  do {
    auto left = static_cast<std::uint32_t>(x >> right_bits);
    auto right = static_cast<std::uint32_t>(x % (std::int64_t{1} << right_bits));
    for (int round = 0; round < 6; ++round) {
      std::uint32_t key = keys[static_cast<std::size_t>(round % 3)];
      if (round >= 3) key = ((key << 16) | (key >> 16)) + 0x7f4a7c15U;
      const bool changes_left = round % 2 == 0;
      std::uint32_t mixed = ((changes_left ? right : left) ^ key) * 0x9e3779b1U;
      mixed = (mixed ^ (mixed >> 15)) * 0x85ebca6bU;
      if (changes_left) {
        left ^= mixed >> (32 - left_bits);
      } else {
        right ^= mixed >> (32 - right_bits);
      }
    }
    x = (static_cast<std::int64_t>(left) << right_bits) + right;
  } while (x >= size);
  return x;
}

/// Hash `permuted`: slot p = i mod T passes the bijection of its (batch, block) of purpose 2 and goes to bucket
/// (floor(q size / T) + u) mod size; T < size: the first T values of a bijection of the buckets.
std::int64_t naive_permuted_row(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  const std::int64_t size = spec.d / spec.zeta;
  const std::int64_t batch_rows = spec.batch_rows;
  const std::vector<std::uint32_t> words =
      naive_words(spec.seed, row / batch_rows, 2, static_cast<std::uint32_t>(block));
  const std::int64_t q = naive_image(std::max(batch_rows, size), words, row % batch_rows);
  if (batch_rows <= size) return block * size + q;
  const std::int64_t u =
      batch_rows % size == 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(words[3]) * size) >> 32);
  return block * size + (q * size / batch_rows + u) % size;
}

/// Counts rows of [first, first + rows) on which the header and the naive rule differ, in all blocks.
int disagreements(const SketchSpec& spec, std::int64_t first, std::int64_t rows) {
  int wrong = 0;
  for (std::int64_t row = first; row < first + rows; ++row) {
    for (std::int32_t t = 0; t < spec.zeta; ++t) {
      const SketchEntry entry = sketch_entry(spec, row, t);
      const std::int64_t expected =
          spec.hash == SketchHash::kPermuted ? naive_permuted_row(spec, row, t) : naive_independent_row(spec, row, t);
      wrong += entry.sketch_row != expected || entry.negative != naive_negative(spec, row, t);
    }
  }
  return wrong;
}

/// Rows that start where 32-bit arithmetic, a batch border, or a border of 128 rows would show.
const std::vector<std::int64_t> kFirstRows = {0,
                                              500,
                                              (std::int64_t{1} << 31) - 70,
                                              (std::int64_t{1} << 32) - 70,
                                              (std::int64_t{1} << 39) - 70,
                                              (std::int64_t{1} << 40) + 12345,
                                              (std::int64_t{1} << 44) + 7,
                                              (std::int64_t{1} << 62) - 3};
const std::vector<std::uint64_t> kSeeds = {
    0, 1, 0xffffffffU, std::uint64_t{1} << 32, 0x8000000000000000U, 0xfedcba9876543210U};

}  // namespace

TEST_CASE("blocks share d rows without gap or overlap, differ by at most one row, and the longer come first") {
  for (const std::int32_t zeta : {1, 2, 3, 4, 7, 8, 16, 1024}) {
    for (const std::int64_t d :
         {std::int64_t{zeta}, std::int64_t{zeta} + 1, std::int64_t{2} * zeta - 1, std::int64_t{1024},
          std::int64_t{1025}, std::int64_t{2053}, kMaxSketchRows - 1, kMaxSketchRows}) {
      if (d < zeta) continue;
      const SketchSpec spec = make_spec(SketchHash::kIndependent, d, zeta, 0);
      const std::vector<std::int64_t> begins = naive_begins(d, zeta);
      int wrong = begins.back() != d;
      for (std::int32_t t = 0; t < zeta; ++t) {
        const auto k = static_cast<std::size_t>(t);
        wrong += block_begin(spec, t) != begins[k];
        wrong += block_size(spec, t) != begins[k + 1] - begins[k];
        wrong += block_begin(spec, t) != t * (d / zeta) + std::min<std::int64_t>(t, d % zeta);
      }
      INFO("d " << d << " zeta " << zeta);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the batch length is the table of (d, zeta) that belongs to a sketch's identity") {
  struct Case {
    std::int64_t d;
    std::int32_t zeta;
    std::int64_t batch_rows;
  };
  const std::vector<Case> table = {{1, 1, 512},     {4, 4, 512},     {12, 4, 510},    {64, 4, 512},
                                   {128, 4, 512},   {512, 4, 512},   {1024, 4, 512},  {2048, 4, 512},
                                   {4096, 4, 1024}, {8192, 4, 2048}, {2048, 1, 2048}, {2048, 8, 512},
                                   {320, 4, 480},   {1088, 4, 272},  {1028, 4, 257},  {1024, 3, 341},
                                   {2036, 4, 509},  {2044, 4, 511},  {2052, 4, 513},  {1 << 30, 1, 1 << 30}};
  for (const Case& c : table) {
    INFO("d " << c.d << " zeta " << c.zeta);
    CHECK(make_spec(SketchHash::kPermuted, c.d, c.zeta).batch_rows == c.batch_rows);
  }
  int wrong = 0;
  for (std::int64_t size = 1; size <= 3000; ++size) {
    const std::int64_t expected = size * std::max<std::int64_t>(1, 512 / size);  // docs/decisions/0003
    for (const std::int32_t zeta : {1, 4, 16}) {
      for (const std::int64_t rest : {std::int64_t{0}, std::int64_t{zeta} - 1}) {
        wrong += make_spec(SketchHash::kPermuted, size * zeta + rest, zeta).batch_rows != expected;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the independent hash agrees with the naive rule for all seeds, far rows and uneven blocks") {
  for (const std::uint64_t seed : kSeeds) {
    for (const std::int64_t first : kFirstRows) {
      INFO("seed " << seed << " first row " << first);
      CHECK(disagreements(make_spec(SketchHash::kIndependent, 130, 4, seed), first, 140) == 0);
      CHECK(disagreements(make_spec(SketchHash::kIndependent, 1000, 7, seed), first, 140) == 0);
    }
  }
  CHECK(disagreements(make_spec(SketchHash::kIndependent, 1024 * 3 + 5, 1024, 3), 0, 3) == 0);
  CHECK(disagreements(make_spec(SketchHash::kIndependent, kMaxSketchRows, 1, 3), 0, 200) == 0);
}

TEST_CASE("the permuted hash agrees with the naive rule for all seeds, far rows and batch lengths") {
  for (const std::uint64_t seed : kSeeds) {
    for (const std::int64_t first : kFirstRows) {
      INFO("seed " << seed << " first row " << first);
      CHECK(disagreements(make_spec(SketchHash::kPermuted, 512, 4, seed), first, 140) == 0);
      CHECK(disagreements(make_spec(SketchHash::kPermuted, 240, 3, seed), first, 140) == 0);
      CHECK(disagreements(make_permuted(100, 2, 256, seed), first, 140) == 0);  // uneven
      CHECK(disagreements(make_permuted(300, 2, 128, seed), first, 140) == 0);  // T below the buckets
    }
  }
  CHECK(disagreements(make_spec(SketchHash::kPermuted, 1024 * 2, 1024, 3), 510, 4) == 0);
  CHECK(disagreements(make_spec(SketchHash::kPermuted, kMaxSketchRows, 1, 3), kMaxSketchRows - 100, 200) == 0);
}

TEST_CASE("rows that differ only above bit 31 are different rows") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec spec = make_spec(hash, 512, 4, 11);
    for (const int shift : {32, 41, 42, 50, 62}) {
      int same_bucket = 0;
      int same_sign = 0;
      for (std::int64_t row = 0; row < 512; ++row) {
        const SketchEntry a = sketch_entry(spec, row, 1);
        const SketchEntry b = sketch_entry(spec, row + (std::int64_t{1} << shift), 1);
        same_bucket += a.sketch_row == b.sketch_row;
        same_sign += a.negative == b.negative;
      }
      INFO("shift " << shift);
      CHECK(same_bucket < 30);  // 512 / 128 = 4 expected
      CHECK(same_sign > 200);   // 256 +- 11 expected
      CHECK(same_sign < 312);
    }
  }
}

TEST_CASE("all 64 bits of the seed count") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const SketchSpec reference = make_spec(hash, 512, 4, 0x0123456789abcdefU);
    int wrong = 0;
    for (int bit = 0; bit < 64; ++bit) {
      SketchSpec other = reference;
      other.seed ^= std::uint64_t{1} << bit;
      int same_bucket = 0;
      int same_sign = 0;
      for (std::int64_t row = 0; row < 512; ++row) {
        const SketchEntry a = sketch_entry(reference, row, 2);
        const SketchEntry b = sketch_entry(other, row, 2);
        same_bucket += a.sketch_row == b.sketch_row;
        same_sign += a.negative == b.negative;
      }
      wrong += same_bucket >= 30 || same_sign <= 200 || same_sign >= 312;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a full batch of the permuted hash gives every bucket its exact count of rows") {
  struct Case {
    std::int64_t buckets, batch_rows;
  };
  // T a multiple of the buckets; not a multiple; below the buckets. The first nine are what batch_rows_for makes.
  for (const Case c : {Case{1, 512}, Case{3, 510}, Case{16, 512}, Case{32, 512}, Case{80, 480}, Case{128, 512},
                       Case{257, 257}, Case{512, 512}, Case{600, 600}, Case{100, 256}, Case{100, 512}, Case{7, 512},
                       Case{511, 512}, Case{3, 4}, Case{128, 64}, Case{1000, 999}, Case{2048, 512}, Case{300, 1}}) {
    const SketchSpec spec = make_permuted(c.buckets, 3, c.batch_rows, 17);
    const std::int64_t least = c.batch_rows / c.buckets;
    const std::int64_t most = (c.batch_rows + c.buckets - 1) / c.buckets;
    int wrong = 0;
    for (const std::int64_t batch : {std::int64_t{0}, std::int64_t{1}, std::int64_t{77}, std::int64_t{1} << 40}) {
      for (std::int32_t t = 0; t < spec.zeta; ++t) {
        std::vector<std::int64_t> count(static_cast<std::size_t>(c.buckets), 0);
        for (std::int64_t p = 0; p < c.batch_rows; ++p) {
          const std::int64_t bucket = sketch_entry(spec, batch * c.batch_rows + p, t).sketch_row - t * c.buckets;
          REQUIRE(bucket >= 0);
          REQUIRE(bucket < c.buckets);
          ++count[static_cast<std::size_t>(bucket)];
        }
        for (const std::int64_t k : count) wrong += k < least || k > most;
      }
    }
    INFO("buckets " << c.buckets << " T " << c.batch_rows);
    CHECK(wrong == 0);
  }
}

TEST_CASE("bucket to rows and row to bucket are the same map, for even, uneven and short batches") {
  for (const auto& [buckets, batch_rows] : std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 512},
                                                                                              {80, 480},
                                                                                              {272, 272},
                                                                                              {1, 512},
                                                                                              {100, 256},
                                                                                              {7, 512},
                                                                                              {511, 512},
                                                                                              {3, 4},
                                                                                              {128, 64},
                                                                                              {1000, 999}}) {
    const SketchSpec spec = make_permuted(buckets, 2, batch_rows, 0xabcdef0123456789U);
    int wrong = 0;
    for (const std::int64_t batch : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 33}) {
      for (std::int32_t t = 0; t < 2; ++t) {
        const BatchDeal deal = make_batch_deal(spec, batch, t);
        std::vector<int> seen(static_cast<std::size_t>(batch_rows), 0);
        for (std::uint32_t bucket = 0; bucket < deal.buckets; ++bucket) {
          const ImageRange images = images_of_bucket(deal, bucket);
          for (std::uint32_t image = images.first; image < images.last; ++image) {
            wrong += bucket_of_image(deal, image) != bucket;
            const std::int64_t position = bijection_backward(deal.bijection, image);
            if (position >= batch_rows) continue;  // stands for no row
            ++seen[static_cast<std::size_t>(position)];
            wrong += bucket_of_position(deal, static_cast<std::uint32_t>(position)) != bucket;
            wrong += sketch_entry(spec, batch * batch_rows + position, t).sketch_row != t * buckets + bucket;
          }
        }
        for (const int s : seen) wrong += s != 1;
      }
    }
    INFO("buckets " << buckets << " T " << batch_rows);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a deal spreads the longer buckets by a rotation exactly when the buckets do not divide T") {
  for (const auto& [buckets, batch_rows, turns] : std::vector<std::tuple<std::int64_t, std::int64_t, bool>>{
           {128, 512, false}, {512, 512, false}, {600, 512, false}, {100, 256, true}, {7, 512, true}}) {
    const SketchSpec spec = make_permuted(buckets, 2, batch_rows, 4);
    std::vector<char> met(static_cast<std::size_t>(buckets), 0);
    for (std::int64_t batch = 0; batch < 3000; ++batch) {
      const std::uint32_t rotation = make_batch_deal(spec, batch, 1).rotation;
      REQUIRE(rotation < buckets);
      met[rotation] = 1;
    }
    const auto different = std::count(met.begin(), met.end(), 1);
    INFO("buckets " << buckets << " T " << batch_rows);
    CHECK(different == (turns ? buckets : 1));
    CHECK(met[0] == 1);
  }
}

TEST_CASE("the sign of a row is its bit of the 128 that the documented Philox words hold") {
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 64, 4, 0x123456789abcdef0U);
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{128}, (std::int64_t{1} << 40) + 128}) {
    const std::vector<std::uint32_t> expected = naive_words(spec.seed, row / 128, 0, 3);
    const RandomWords words = sign_words(spec, row + 127, 3);
    CHECK(std::vector<std::uint32_t>{words.word[0], words.word[1], words.word[2], words.word[3]} == expected);
    int wrong = 0;
    for (std::int64_t k = 0; k < 128; ++k) {
      const bool bit = ((expected[static_cast<std::size_t>(k / 32)] >> (k % 32)) & 1U) != 0;
      wrong += sign_bit(words, row + k) != bit;
      wrong += is_negative(spec, row + k, 3) != bit;
      wrong += sketch_entry(spec, row + k, 3).negative != bit;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the precision of a sketch does not change S") {
  SketchSpec a = make_spec(SketchHash::kPermuted, 64, 4, 1);
  SketchSpec b = a;
  b.precision = SketchPrecision::kFp16;
  CHECK(dense_sketch_matrix(a, 0, 700) == dense_sketch_matrix(b, 0, 700));
}

TEST_CASE("the oracle's matrix has one entry +-1 of each column in every block, and nothing else") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    const std::int64_t d = hash == SketchHash::kPermuted ? 120 : 122;
    const SketchSpec spec = make_spec(hash, d, 4, 2);
    const std::int64_t rows = 1100;
    const std::vector<double> s = dense_sketch_matrix(spec, 300, rows);  // (d, rows)
    const std::vector<std::int64_t> begins = naive_begins(d, 4);
    int wrong = 0;
    for (std::int64_t k = 0; k < rows; ++k) {
      for (std::int32_t t = 0; t < 4; ++t) {
        int nonzeros = 0;
        for (std::int64_t i = begins[static_cast<std::size_t>(t)]; i < begins[static_cast<std::size_t>(t) + 1]; ++i) {
          const double entry = s[static_cast<std::size_t>(i * rows + k)];
          if (entry == 0.0) continue;
          ++nonzeros;
          wrong += entry != (naive_negative(spec, 300 + k, t) ? -1.0 : 1.0);
          const std::int64_t at = hash == SketchHash::kPermuted ? naive_permuted_row(spec, 300 + k, t)
                                                                : naive_independent_row(spec, 300 + k, t);
          wrong += i != at;
        }
        wrong += nonzeros != 1;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("golden entries: the sketch of a seed never changes silently") {
  // Frozen from the naive rule. A change here is a change of every user's sketches: it needs an ADR and a CHANGELOG
  // line.
  struct Golden {
    SketchHash hash;
    std::int64_t d;
    std::int32_t zeta;
    std::int64_t batch_rows;
    std::uint64_t seed;
    std::int64_t row;
    std::int32_t block;
    std::int64_t sketch_row;
    bool negative;
  };
  constexpr SketchHash kP = SketchHash::kPermuted;
  constexpr SketchHash kI = SketchHash::kIndependent;
  const std::vector<Golden> golden = {
      {kP, 2048, 4, 512, 0x0U, 0, 0, 58, true},
      {kP, 2048, 4, 512, 0x1U, 1000003, 3, 1819, true},
      {kP, 2048, 4, 512, 0x8000000000000001U, 1099511628287, 2, 1051, false},
      {kP, 320, 4, 480, 0x0U, 0, 0, 9, true},
      {kP, 320, 4, 480, 0x1U, 1000003, 3, 266, true},
      {kP, 320, 4, 480, 0x8000000000000001U, 1099511628287, 2, 233, false},
      {kP, 8192, 4, 2048, 0x0U, 0, 0, 1652, true},
      {kP, 8192, 4, 2048, 0x1U, 1000003, 3, 6566, true},
      {kP, 8192, 4, 2048, 0x8000000000000001U, 1099511628287, 2, 5998, false},
      {kP, 1000, 1, 1000, 0x0U, 0, 0, 422, true},
      {kP, 1000, 1, 1000, 0x1U, 1000003, 0, 14, false},
      {kP, 1000, 1, 1000, 0x8000000000000001U, 1099511628287, 0, 545, false},
      {kP, 400, 4, 512, 0x0U, 0, 0, 57, true},
      {kP, 400, 4, 512, 0x1U, 1000003, 3, 327, true},
      {kP, 400, 4, 512, 0x8000000000000001U, 1099511628287, 2, 259, false},
      {kP, 4096, 2, 512, 0x0U, 0, 0, 1652, true},
      {kP, 4096, 2, 512, 0x1U, 1000003, 1, 3024, false},
      {kP, 4096, 2, 512, 0x8000000000000001U, 1099511628287, 1, 3226, false},
      {kI, 2048, 4, 512, 0x0U, 0, 0, 481, true},
      {kI, 2048, 4, 512, 0x1U, 1000003, 3, 1799, true},
      {kI, 2048, 4, 512, 0x8000000000000001U, 1099511628287, 2, 1344, false},
      {kI, 1001, 3, 333, 0x0U, 0, 0, 313, true},
      {kI, 1001, 3, 333, 0x1U, 1000003, 2, 787, true},
      {kI, 1001, 3, 333, 0x8000000000000001U, 1099511628287, 1, 606, false},
  };
  for (const Golden& g : golden) {
    SketchSpec spec = make_spec(g.hash, g.d, g.zeta, g.seed);
    spec.batch_rows = g.batch_rows;
    const SketchEntry entry = sketch_entry(spec, g.row, g.block);
    INFO("d " << g.d << " zeta " << g.zeta << " seed " << g.seed << " row " << g.row << " block " << g.block);
    CHECK(entry.sketch_row == g.sketch_row);
    CHECK(entry.negative == g.negative);
  }
}
