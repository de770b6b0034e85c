// Whether the rule of S is as random as the theory wants. Every test counts cells whose expected share is known and
// turns the chi-square into z = (chi-square - dof) / sqrt(2 dof), which is exact to second order however sparse the
// cells (multinomial, equal shares), or sums products of signs into z = sum / sqrt(terms). All must stay below 5.
//
// Inside a batch the counts of the permuted hash are exact, so rows of one batch are no independent draws: the tests
// draw once per batch. With 1.5 million batches six Feistel rounds give |z| < 3.5 everywhere; four rounds give z of 30
// to 700 for pairs and differences of positions, and fail. Seeds are fixed; a failure prints them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/sketch_rule.h"
#include "tests/support/catch.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

namespace {

using namespace tallsketch;

constexpr double kThreshold = 5.0;
constexpr std::uint64_t kSeed = 12345;

SketchSpec make_permuted(std::int64_t buckets, std::int64_t batch_rows, std::uint64_t seed = kSeed) {
  SketchSpec spec = make_spec(SketchHash::kPermuted, 4 * buckets, 4, seed);
  spec.batch_rows = batch_rows;
  return spec;
}

/// Counts draws that should be uniform over `cells` cells.
class Uniform {
 public:
  explicit Uniform(std::size_t cells) : count_(cells, 0) {}
  void add(std::size_t cell) {
    ++count_[cell];
    ++draws_;
  }
  /// legal: cells that can occur at all, where the table has others too
  double z(std::size_t legal = 0) const {
    if (legal == 0) legal = count_.size();
    const double expected = static_cast<double>(draws_) / static_cast<double>(legal);
    double squares = 0.0;
    for (const std::uint32_t c : count_) squares += static_cast<double>(c) * static_cast<double>(c);
    const double chi_square = squares / expected - static_cast<double>(draws_);
    const double dof = static_cast<double>(legal) - 1.0;
    return (chi_square - dof) / std::sqrt(2.0 * dof);
  }

 private:
  std::vector<std::uint32_t> count_;
  std::int64_t draws_ = 0;
};

/// Counts pairs of draws that should be uniform and independent.
class Joint {
 public:
  Joint(std::int64_t rows, std::int64_t cols)
      : cols_(static_cast<std::size_t>(cols)), cells_(static_cast<std::size_t>(rows * cols)) {}
  void add(std::int64_t i, std::int64_t j) {
    cells_.add(static_cast<std::size_t>(i) * cols_ + static_cast<std::size_t>(j));
  }
  double z() const { return cells_.z(); }

 private:
  std::size_t cols_;
  Uniform cells_;
};

/// z of `hits` among `draws` of probability p.
double binomial_z(std::int64_t hits, std::int64_t draws, double p) {
  const auto n = static_cast<double>(draws);
  return (static_cast<double>(hits) - n * p) / std::sqrt(n * p * (1.0 - p));
}

/// Bucket of (row, block), counted inside its block.
std::int64_t bucket(const SketchSpec& spec, std::int64_t row, std::int32_t block) {
  return sketch_entry(spec, row, block).sketch_row - block_begin(spec, block);
}

/// Signs +-1 of rows [first, first + rows) of a block.
std::vector<int> signs(std::uint64_t seed, std::int64_t first, std::int64_t rows, std::int32_t block) {
  const SketchSpec spec = make_spec(SketchHash::kPermuted, 512, 4, seed);
  std::vector<int> s(static_cast<std::size_t>(rows));
  for (std::int64_t k = 0; k < rows; ++k) s[static_cast<std::size_t>(k)] = is_negative(spec, first + k, block) ? -1 : 1;
  return s;
}

/// z of the correlation of x and y, y taken `lag` rows later.
double correlation_z(const std::vector<int>& x, const std::vector<int>& y, std::size_t lag = 0) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k + lag < x.size(); ++k) sum += x[k] * y[k + lag];
  return static_cast<double>(sum) / std::sqrt(static_cast<double>(x.size() - lag));
}

}  // namespace

TEST_CASE("the bijection of a batch leads every position and every pair of positions uniformly") {
  constexpr std::int64_t kBatches = 1500000;
  for (const std::int64_t size : {512, 480, 272, 257, 509, 2048}) {
    // As many buckets as rows, so that the bucket is the image itself.
    const SketchSpec spec = make_permuted(size, size);
    const std::vector<std::int64_t> positions = {0, 1, 2, 3, 5, 37, 7, 8, size / 2 - 1, size / 2, size - 1};
    const std::vector<std::vector<std::size_t>> pairs = {{0, 1},  {0, 2}, {0, 3}, {1, 2}, {4, 5},
                                                         {0, 10}, {8, 9}, {0, 9}, {6, 7}};
    std::vector<std::vector<std::uint16_t>> image(positions.size(), std::vector<std::uint16_t>(kBatches));
    for (std::int64_t batch = 0; batch < kBatches; ++batch) {
      const BatchDeal deal = make_batch_deal(spec, batch, static_cast<std::int32_t>(batch & 3));
      for (std::size_t k = 0; k < positions.size(); ++k) {
        image[k][static_cast<std::size_t>(batch)] =
            static_cast<std::uint16_t>(bucket_of_position(deal, static_cast<std::uint32_t>(positions[k])));
      }
    }
    const auto cells = static_cast<std::size_t>(size);
    for (std::size_t k = 0; k < positions.size(); ++k) {
      Uniform single(cells);
      for (const std::uint16_t q : image[k]) single.add(q);
      INFO("seed " << kSeed << " T " << size << " position " << positions[k]);
      CHECK(std::fabs(single.z()) < kThreshold);
    }
    for (const auto& pair : pairs) {
      Uniform both(cells * cells), difference(cells), exclusive_or(4096);
      for (std::size_t batch = 0; batch < kBatches; ++batch) {
        const std::size_t q0 = image[pair[0]][batch];
        const std::size_t q1 = image[pair[1]][batch];
        both.add(q0 * cells + q1);
        difference.add((q0 + cells - q1) % cells);
        exclusive_or.add(q0 ^ q1);
      }
      INFO("seed " << kSeed << " T " << size << " positions " << positions[pair[0]] << " and " << positions[pair[1]]);
      CHECK(std::fabs(both.z(cells * (cells - 1))) < kThreshold);
      CHECK(std::fabs(difference.z(cells - 1)) < kThreshold);
      if ((cells & (cells - 1)) == 0) CHECK(std::fabs(exclusive_or.z(cells - 1)) < kThreshold);
    }
  }
}

TEST_CASE("buckets of the permuted hash are uniform over batches, evenly dealt or not") {
  constexpr std::int64_t kBatches = 200000;
  struct Case {
    std::int64_t buckets, batch_rows;
  };
  // T a multiple of the buckets; not a multiple (the rotation spreads the longer buckets); below the buckets.
  for (const Case c : {Case{128, 512}, Case{80, 480}, Case{16, 512}, Case{100, 512}, Case{100, 256}, Case{7, 512},
                       Case{300, 512}, Case{1000, 512}}) {
    const SketchSpec spec = make_permuted(c.buckets, c.batch_rows);
    for (const std::int64_t position : {std::int64_t{0}, std::int64_t{100}, c.batch_rows - 1}) {
      for (const std::int32_t block : {0, 3}) {
        Uniform single(static_cast<std::size_t>(c.buckets));
        for (std::int64_t batch = 0; batch < kBatches; ++batch) {
          single.add(static_cast<std::size_t>(bucket(spec, batch * c.batch_rows + position, block)));
        }
        INFO("seed " << kSeed << " buckets " << c.buckets << " T " << c.batch_rows << " position " << position);
        CHECK(std::fabs(single.z()) < kThreshold);
      }
    }
  }
}

TEST_CASE("two rows of a batch meet in a bucket as often as a deal without replacement lets them") {
  constexpr std::int64_t kBatches = 300000;
  struct Case {
    std::int64_t buckets, batch_rows;
  };
  for (const Case c : {Case{128, 512}, Case{80, 480}, Case{16, 512}}) {
    const SketchSpec spec = make_permuted(c.buckets, c.batch_rows);
    const double share = static_cast<double>(c.batch_rows / c.buckets - 1) / static_cast<double>(c.batch_rows - 1);
    for (const std::int64_t distance : {1, 2, 4, 16, 32, 64, 128, 256, 300}) {
      std::int64_t meetings = 0;
      for (std::int64_t batch = 0; batch < kBatches; ++batch) {
        const BatchDeal deal = make_batch_deal(spec, batch, static_cast<std::int32_t>(batch & 3));
        const auto position = static_cast<std::uint32_t>(batch % (c.batch_rows - distance));
        meetings += bucket_of_position(deal, position) ==
                    bucket_of_position(deal, position + static_cast<std::uint32_t>(distance));
      }
      INFO("seed " << kSeed << " buckets " << c.buckets << " T " << c.batch_rows << " distance " << distance);
      CHECK(std::fabs(binomial_z(meetings, kBatches, share)) < kThreshold);
    }
  }
}

TEST_CASE("buckets of the permuted hash are independent between blocks, batches and seeds, and of the signs") {
  constexpr std::int64_t kBatches = 400000;
  struct Case {
    std::int64_t buckets, batch_rows;
  };
  for (const Case c : {Case{128, 512}, Case{509, 509}}) {
    const SketchSpec spec = make_permuted(c.buckets, c.batch_rows);
    INFO("seed " << kSeed << " buckets " << c.buckets << " T " << c.batch_rows);
    for (const std::int64_t position : {0, 77}) {
      const auto at = [&](const SketchSpec& s, std::int64_t batch, std::int32_t block) {
        return bucket(s, batch * c.batch_rows + position, block);
      };
      for (const auto& blocks : std::vector<std::vector<std::int32_t>>{{0, 1}, {1, 2}, {2, 3}, {0, 3}, {0, 2}}) {
        Joint joint(c.buckets, c.buckets);
        for (std::int64_t b = 0; b < kBatches; ++b) joint.add(at(spec, b, blocks[0]), at(spec, b, blocks[1]));
        INFO("blocks " << blocks[0] << " and " << blocks[1] << " position " << position);
        CHECK(std::fabs(joint.z()) < kThreshold);
      }
      for (const std::int64_t distance : {std::int64_t{1}, std::int64_t{1} << 32}) {
        Joint joint(c.buckets, c.buckets);
        for (std::int64_t b = 0; b < 2 * kBatches; b += 2) joint.add(at(spec, b, 1), at(spec, b + distance, 1));
        INFO("batches " << distance << " apart, position " << position);
        CHECK(std::fabs(joint.z()) < kThreshold);
      }
      for (const std::uint64_t change : {std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{1} << 63}) {
        SketchSpec other = spec;
        other.seed += change;
        Joint joint(c.buckets, c.buckets);
        for (std::int64_t b = 0; b < kBatches; ++b) joint.add(at(spec, b, 2), at(other, b, 2));
        INFO("seeds " << change << " apart, position " << position);
        CHECK(std::fabs(joint.z()) < kThreshold);
      }
      for (const std::int32_t sign_block : {0, 1}) {
        Joint joint(c.buckets, 2);
        for (std::int64_t b = 0; b < kBatches; ++b) {
          joint.add(at(spec, b, 0), is_negative(spec, b * c.batch_rows + position, sign_block) ? 1 : 0);
        }
        INFO("bucket of block 0 and sign of block " << sign_block << " position " << position);
        CHECK(std::fabs(joint.z()) < kThreshold);
      }
    }
  }
}

TEST_CASE("the first batch of consecutive seeds is as random as consecutive batches of one seed") {
  constexpr std::uint64_t kSeeds = 400000;
  Joint neighbours(128, 128), blocks(128, 128), positions(512, 512);
  for (std::uint64_t seed = 0; seed < kSeeds; seed += 2) {
    const SketchSpec even = make_permuted(128, 512, seed);
    const SketchSpec odd = make_permuted(128, 512, seed + 1);
    neighbours.add(bucket(even, 3, 0), bucket(odd, 3, 0));
    blocks.add(bucket(even, 3, 0), bucket(even, 3, 1));
    positions.add(bucket(make_permuted(512, 512, seed), 3, 0), bucket(make_permuted(512, 512, seed + 1), 4, 0));
  }
  CHECK(std::fabs(neighbours.z()) < kThreshold);
  CHECK(std::fabs(blocks.z()) < kThreshold);
  CHECK(std::fabs(positions.z()) < kThreshold);
}

TEST_CASE("buckets of the independent hash are uniform, and independent between rows, blocks, seeds and of the signs") {
  constexpr std::int64_t kRows = 400000;
  const SketchSpec spec = make_spec(SketchHash::kIndependent, 514, 4, kSeed);  // blocks of 129, 129, 128, 128
  for (std::int32_t block = 0; block < 4; ++block) {
    const std::int64_t size = block_size(spec, block);
    INFO("seed " << kSeed << " block " << block);
    Uniform single(static_cast<std::size_t>(size));
    Joint sign(size, 2);
    for (std::int64_t row = 0; row < kRows; ++row) {
      single.add(static_cast<std::size_t>(bucket(spec, row, block)));
      sign.add(bucket(spec, row, block), is_negative(spec, row, block) ? 1 : 0);
    }
    CHECK(std::fabs(single.z()) < kThreshold);
    CHECK(std::fabs(sign.z()) < kThreshold);
    for (const std::int64_t distance : {std::int64_t{1}, std::int64_t{2}, std::int64_t{512}, std::int64_t{1} << 32}) {
      // Pairs without a common row: rows whose bit log2(distance) is 0, each with the row above.
      Joint rows(size, size);
      for (std::int64_t row = 0; row < 2 * kRows; ++row) {
        if ((row & distance) == 0) rows.add(bucket(spec, row, block), bucket(spec, row + distance, block));
      }
      INFO("distance " << distance);
      CHECK(std::fabs(rows.z()) < kThreshold);
    }
    for (std::int32_t other = block + 1; other < 4; ++other) {
      Joint blocks(size, block_size(spec, other));
      for (std::int64_t row = 0; row < kRows; ++row) blocks.add(bucket(spec, row, block), bucket(spec, row, other));
      INFO("other block " << other);
      CHECK(std::fabs(blocks.z()) < kThreshold);
    }
    for (const std::uint64_t change : {std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{1} << 63}) {
      SketchSpec other = spec;
      other.seed += change;
      Joint seeds(size, size);
      for (std::int64_t row = 0; row < kRows; ++row) seeds.add(bucket(spec, row, block), bucket(other, row, block));
      INFO("seeds " << change << " apart");
      CHECK(std::fabs(seeds.z()) < kThreshold);
    }
  }
}

TEST_CASE("buckets, batch keys and signs share no random words, even where their counters count alike") {
  // Row or batch k draws with index k, and so do the signs of rows 128 k to 128 k + 127: only the purpose differs.
  constexpr std::int64_t kDraws = 300000;
  const SketchSpec independent = make_spec(SketchHash::kIndependent, 512, 4, kSeed);
  const SketchSpec permuted = make_permuted(100, 512);  // uneven: the rotation is a key word too
  for (const std::int64_t bit : {31, 63, 95, 127}) {
    Joint row(128, 2), batch(100, 2), rotation(100, 2);
    for (std::int64_t k = 0; k < kDraws; ++k) {
      const std::int64_t negative = is_negative(independent, 128 * k + bit, 0) ? 1 : 0;
      row.add(bucket(independent, k, 0), negative);
      batch.add(bucket(permuted, 512 * k, 0), negative);
      rotation.add(make_batch_deal(permuted, k, 0).rotation, negative);
    }
    INFO("seed " << kSeed << " bit " << bit);
    CHECK(std::fabs(row.z()) < kThreshold);
    CHECK(std::fabs(batch.z()) < kThreshold);
    CHECK(std::fabs(rotation.z()) < kThreshold);
  }
}

TEST_CASE("the independent hash has no bias that a large block would show") {
  // 3 * 2^28 buckets: 32 random bits by a modulus or a multiplication would favour a third of them; counted in 768
  // bins.
  const SketchSpec spec = make_spec(SketchHash::kIndependent, std::int64_t{3} << 28, 1, kSeed);
  Uniform bins(768), low(768);
  for (std::int64_t row = 0; row < 1000000; ++row) {
    const std::int64_t b = bucket(spec, row, 0);
    bins.add(static_cast<std::size_t>(b >> 20));
    low.add(static_cast<std::size_t>(b % 768));
  }
  CHECK(std::fabs(bins.z()) < kThreshold);
  CHECK(std::fabs(low.z()) < kThreshold);
}

TEST_CASE("signs are balanced, and uncorrelated between rows, blocks and seeds") {
  constexpr std::int64_t kRows = 1 << 20;
  constexpr std::int32_t kBlocks = 6;
  std::vector<std::vector<int>> block(kBlocks);
  for (std::int32_t t = 0; t < kBlocks; ++t) block[static_cast<std::size_t>(t)] = signs(kSeed, 0, kRows, t);
  const std::vector<int> ones(kRows, 1);
  INFO("seed " << kSeed);
  for (std::size_t t = 0; t < kBlocks; ++t) {
    INFO("block " << t);
    CHECK(std::fabs(correlation_z(block[t], ones)) < kThreshold);
    for (const std::size_t lag : {1, 2, 3, 4, 8, 16, 31, 32, 33, 64, 96, 127, 128, 129, 256, 512, 4096}) {
      INFO("rows " << lag << " apart");
      CHECK(std::fabs(correlation_z(block[t], block[t], lag)) < kThreshold);
    }
    for (std::size_t other = 0; other < kBlocks; ++other) {
      if (other == t) continue;
      for (const std::size_t lag : {0, 1, 32, 128, 512}) {
        INFO("other block " << other << " lag " << lag);
        CHECK(std::fabs(correlation_z(block[t], block[other], lag)) < kThreshold);
      }
    }
  }
  for (const std::uint64_t change :
       {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63}) {
    for (const std::size_t t : {0U, 3U}) {
      const std::vector<int> other = signs(kSeed + change, 0, kRows, static_cast<std::int32_t>(t));
      INFO("seeds " << change << " apart, block " << t);
      CHECK(std::fabs(correlation_z(block[t], other)) < kThreshold);
      CHECK(std::fabs(correlation_z(block[t], other, 128)) < kThreshold);
    }
  }
  for (const int shift : {32, 39, 40, 60}) {
    INFO("rows 2^" << shift << " apart");
    CHECK(std::fabs(correlation_z(block[0], signs(kSeed, std::int64_t{1} << shift, kRows, 0))) < kThreshold);
  }
}

TEST_CASE("signs are more than pairwise independent: products over rows and blocks are balanced") {
  constexpr std::int64_t kRows = 1 << 20;
  std::vector<std::vector<int>> s;
  for (std::int32_t t = 0; t < 4; ++t) s.push_back(signs(kSeed, 0, kRows, t));
  // Three and four signs at once: S^T S and its square contain such products.
  for (const std::size_t lag : {1, 32, 128}) {
    std::int64_t rectangle = 0, triple = 0, four_rows = 0;
    for (std::size_t k = 0; k + 3 * lag < s[0].size(); ++k) {
      rectangle += s[0][k] * s[1][k] * s[0][k + lag] * s[1][k + lag];
      triple += s[0][k] * s[1][k] * s[2][k + lag];
      four_rows += s[0][k] * s[0][k + lag] * s[0][k + 2 * lag] * s[0][k + 3 * lag];
    }
    const double sigma = std::sqrt(static_cast<double>(kRows));
    INFO("seed " << kSeed << " lag " << lag);
    CHECK(std::fabs(static_cast<double>(rectangle)) < kThreshold * sigma);
    CHECK(std::fabs(static_cast<double>(triple)) < kThreshold * sigma);
    CHECK(std::fabs(static_cast<double>(four_rows)) < kThreshold * sigma);
  }
  std::int64_t all_blocks = 0;
  for (std::size_t k = 0; k < s[0].size(); ++k) all_blocks += s[0][k] * s[1][k] * s[2][k] * s[3][k];
  CHECK(std::fabs(static_cast<double>(all_blocks)) < kThreshold * std::sqrt(static_cast<double>(kRows)));
}

TEST_CASE("the mean of S^T S over seeds is the identity, and its variance is that of independent signs and blocks") {
  constexpr std::uint64_t kSeeds = 4000;
  constexpr std::int64_t kBuckets = 8;
  constexpr std::int32_t kZeta = 4;
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    SketchSpec spec = make_spec(hash, kBuckets * kZeta, kZeta, 0);  // T = 512
    // 24 rows of one batch, neighbours and not, then 24 rows of other batches.
    std::vector<std::int64_t> rows;
    for (std::int64_t k = 0; k < 24; ++k) rows.push_back(512 * 3 + (k < 12 ? k : 40 * (k - 11)));
    for (std::int64_t k = 0; k < 24; ++k) rows.push_back(512 * (5 + k) + (k % 2) * 100);
    const std::size_t count = rows.size();
    std::vector<std::int64_t> sum(count * count, 0);  // of zeta * (S^T S)_ij
    int wrong_diagonals = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      spec.seed = seed;
      std::vector<SketchEntry> entry;  // (count, zeta)
      for (const std::int64_t row : rows) {
        for (std::int32_t t = 0; t < kZeta; ++t) entry.push_back(sketch_entry(spec, row, t));
      }
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          int product = 0;
          for (std::size_t a = i * kZeta; a < (i + 1) * kZeta; ++a) {
            for (std::size_t b = j * kZeta; b < (j + 1) * kZeta; ++b) {
              if (entry[a].sketch_row == entry[b].sketch_row)
                product += entry[a].negative == entry[b].negative ? 1 : -1;
            }
          }
          if (i == j) wrong_diagonals += product != kZeta;
          sum[i * count + j] += product;
        }
      }
    }
    double worst = 0.0, squares = 0.0;
    std::int64_t pairs = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool same_batch = rows[i] / 512 == rows[j] / 512;
        // A meeting contributes +-1; a row meets another of its batch in (T / buckets - 1) of T - 1 places.
        const double meets =
            hash == SketchHash::kPermuted && same_batch ? (512.0 / kBuckets - 1) / 511 : 1.0 / kBuckets;
        const double z =
            static_cast<double>(sum[i * count + j]) / std::sqrt(static_cast<double>(kSeeds) * kZeta * meets);
        worst = std::max(worst, std::fabs(z));
        squares += z * z;
        ++pairs;
      }
    }
    INFO("hash " << static_cast<int>(hash) << " seeds 0 to " << kSeeds - 1);
    CHECK(wrong_diagonals == 0);
    CHECK(worst < kThreshold);
    // The squares of so many z of variance 1: a shared sign or block would raise their mean.
    const auto dof = static_cast<double>(pairs);
    CHECK(std::fabs(squares - dof) < kThreshold * std::sqrt(2.0 * dof));
  }
}

TEST_CASE("case C-35: the matrices of neighbouring seeds are uncorrelated, in their entries and in their pattern") {
  constexpr std::int64_t kRows = 4096;
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{41}, std::uint64_t{0xffffffffU}}) {
      const std::vector<double> s = dense_sketch_matrix(make_spec(hash, 512, 4, seed), 0, kRows);
      const std::vector<double> next = dense_sketch_matrix(make_spec(hash, 512, 4, seed + 1), 0, kRows);
      double product = 0.0;
      std::int64_t common = 0;
      for (std::size_t k = 0; k < s.size(); ++k) {
        product += s[k] * next[k];
        common += s[k] != 0.0 && next[k] != 0.0;
      }
      const double nonzeros = 4.0 * kRows;
      INFO("hash " << static_cast<int>(hash) << " seed " << seed);
      CHECK(std::fabs(product / nonzeros) < 0.05);  // sigma 0.0007
      CHECK(std::fabs(binomial_z(common, 4 * kRows, 1.0 / 128)) < kThreshold);
    }
  }
}

TEST_CASE("BlockPerm's deal leads every element and every pair of elements uniformly, however few they are") {
  constexpr std::int64_t kBatches = 400000;
  for (const SketchSpec& spec : {make_block_spec(SketchHash::kPermuted, 2048, 128, 2, 2, 0, kSeed),   // 64 rows a deal
                                 make_block_spec(SketchHash::kPermuted, 256, 8, 2, 1, 0, kSeed),      // 16
                                 make_block_spec(SketchHash::kPermuted, 35, 5, 1, 1, 0, kSeed),       // few
                                 make_block_spec(SketchHash::kPermuted, 320, 64, 3, 1, 0, kSeed)}) {  // 192
    const std::int64_t rows = deal_rows(spec);
    INFO("seed " << kSeed << " rows of a deal " << rows);
    const std::vector<std::uint32_t> elements = {0,
                                                 1,
                                                 2,
                                                 static_cast<std::uint32_t>(rows / 2),
                                                 static_cast<std::uint32_t>(rows - 2),
                                                 static_cast<std::uint32_t>(rows - 1)};
    std::vector<Uniform> single(elements.size(), Uniform(static_cast<std::size_t>(rows)));
    std::vector<Uniform> pairs(elements.size(), Uniform(static_cast<std::size_t>(rows * rows)));
    for (std::int64_t batch = 0; batch < kBatches; ++batch) {
      std::vector<std::size_t> place;
      for (const std::uint32_t element : elements) {
        place.push_back(shuffled_place(spec, batch, batch % group_count(spec), element));
      }
      for (std::size_t k = 0; k < elements.size(); ++k) {
        single[k].add(place[k]);
        pairs[k].add(place[k] * static_cast<std::size_t>(rows) + place[(k + 1) % elements.size()]);
      }
    }
    for (std::size_t k = 0; k < elements.size(); ++k) {
      INFO("element " << elements[k]);
      CHECK(std::fabs(single[k].z()) < kThreshold);
      CHECK(std::fabs(pairs[k].z(static_cast<std::size_t>(rows * (rows - 1)))) < kThreshold);
    }
  }
}

TEST_CASE("BlockPerm keeps norms on average: E ||S x||^2 = ||x||^2, for kappa up to the number of blocks") {
  constexpr int kSeeds = 4000;
  constexpr std::int64_t kRows = 300;
  for (const std::int32_t kappa : {1, 2, 4}) {
    for (const std::int64_t total : {std::int64_t{0}, kRows}) {
      double sum = 0, squares = 0;
      for (int seed = 0; seed < kSeeds; ++seed) {
        const SketchSpec spec =
            make_block_spec(SketchHash::kPermuted, 64, 16, kappa, 2, total, kSeed + static_cast<std::uint64_t>(seed));
        std::vector<double> y(64, 0.0);  // S x, x = (1, ..., 1)
        for (std::int64_t row = 0; row < kRows; ++row) {
          for (std::int32_t t = 0; t < spec.zeta; ++t) {
            const SketchEntry entry = sketch_entry(spec, row, t);
            y[static_cast<std::size_t>(entry.sketch_row)] += entry.negative ? -1.0 : 1.0;
          }
        }
        double norm = 0;
        for (const double v : y) norm += v * v / (spec.zeta * static_cast<double>(kRows));
        sum += norm;
        squares += norm * norm;
      }
      const double mean = sum / kSeeds;
      const double deviation = std::sqrt((squares / kSeeds - mean * mean) / kSeeds);
      INFO("kappa " << kappa << " contiguous " << (total > 0) << " mean " << mean << " deviation " << deviation);
      CHECK(std::fabs(mean - 1) < kThreshold * deviation);
    }
  }
}
