// The rule of FlashBlockRow: ranges, uniform rows also where the last block is short, signs, scale, independence.
#include <cmath>
#include <set>
#include <vector>

#include "kernels/block_row.h"
#include "kernels/signed_entry.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

/// Row of A behind a sample, and its sign.
struct Sample {
  std::int64_t row;
  bool negative;
};
Sample sample_of(const BlockRowSpec& spec, std::int64_t sketch_row, std::int32_t l, std::int32_t u) {
  const SampledBlock block = sampled_block(spec, sketch_row / kBlockRowSize, l);
  const std::uint32_t entry = sampled_row(spec, sketch_row, l, u, block.rows);
  REQUIRE(entry_row(entry) < block.rows);
  return {block.first + entry_row(entry), (entry & kEntrySign) != 0};
}

}  // namespace

TEST_CASE("Sampled blocks are aligned, within A, and of 128 rows but for the last") {
  for (const std::int64_t m : {std::int64_t{1}, std::int64_t{127}, std::int64_t{128}, std::int64_t{129},
                               std::int64_t{1000}, (std::int64_t{1} << 32) - 1}) {
    const BlockRowSpec spec{7, m, 256, 3, 2};
    bool good = true;
    for (std::int64_t g = 0; g < 200; ++g) {
      for (std::int32_t l = 0; l < 3; ++l) {
        const SampledBlock block = sampled_block(spec, g, l);
        const std::int64_t rest = m - block.first;
        good = good && block.first % kBlockRowSize == 0 && block.first >= 0 && rest > 0 &&
               block.rows == std::min<std::int64_t>(rest, kBlockRowSize);
      }
    }
    INFO("m " << m);
    CHECK(good);
  }
}

TEST_CASE("Every sample is uniform over the rows of A, a short last block included, and its sign is fair") {
  const std::int64_t m = 128 + 37, d = 128;
  std::vector<double> hits(static_cast<std::size_t>(m), 0.0);
  double negative = 0, total = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const BlockRowSpec spec{seed, m, d, 2, 2};
    for (const std::int64_t row : {3, 100}) {
      for (std::int32_t l = 0; l < 2; ++l) {
        const Sample sample = sample_of(spec, row, l, 1);
        hits[static_cast<std::size_t>(sample.row)] += 1;
        negative += sample.negative ? 1 : 0;
        total += 1;
      }
    }
  }
  const double mean = total / static_cast<double>(m);  // 97
  double chi_squared = 0, in_last = 0;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    chi_squared += (hits[i] - mean) * (hits[i] - mean) / mean;
    in_last += i >= 128 ? hits[i] : 0;
  }
  // Samples of one block draw meet in a block: their variance is more than multinomial, so the bounds are wide. A block drawn
  // uniformly instead of by its rows would put half of all samples into the last 37 rows: 3.4 times their share.
  CHECK(chi_squared < 3 * static_cast<double>(m));
  CHECK(std::fabs(in_last / total - 37.0 / static_cast<double>(m)) < 6 * std::sqrt(0.22 * 0.78 / (total / 2)));
  CHECK(std::fabs(negative / total - 0.5) < 5 * 0.5 / std::sqrt(total));
}

TEST_CASE("Samples differ between sketch rows, blocks, draws and seeds") {
  std::set<std::pair<std::int64_t, bool>> first_eight;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    const BlockRowSpec spec{seed, 1 << 20, 256, 2, 2};
    for (const std::int64_t row : {0, 1, 128}) {
      for (std::int32_t l = 0; l < 2; ++l) {
        for (std::int32_t u = 0; u < 2; ++u) {
          const Sample sample = sample_of(spec, row, l, u);
          first_eight.insert({sample.row, sample.negative});
        }
      }
    }
  }
  CHECK(first_eight.size() >= 20);  // of 24: a meeting has probability 1/256 a pair
}

TEST_CASE("The scale makes the expected squared length of Sx that of x, with the true m") {
  for (const std::int64_t m : {100, 165, 1000}) {
    double sum = 0;
    constexpr int kSeeds = 400;
    const std::int64_t d = 256;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const BlockRowSpec spec{seed, m, d, 2, 2};
      const double scale = static_cast<double>(block_row_scale(spec));
      for (std::int64_t row = 0; row < d; ++row) {
        double y = 0;  // of x with x_i = 1 for the last 37 rows
        for (std::int32_t l = 0; l < 2; ++l) {
          for (std::int32_t u = 0; u < 2; ++u) {
            const Sample sample = sample_of(spec, row, l, u);
            if (sample.row >= m - 37) y += sample.negative ? -1 : 1;
          }
        }
        sum += scale * y * scale * y;
      }
    }
    INFO("m " << m);
    // One of the two output blocks' four block draws decides over 128 rows: a relative deviation of about
    // sqrt((m/37) / (4 * 400)), at most 13 %.
    CHECK(sum / kSeeds == Catch::Approx(37.0).epsilon(0.5));
    if (m == 100) CHECK(sum / kSeeds == Catch::Approx(37.0).epsilon(0.05));  // one block: no such chance
  }
}
