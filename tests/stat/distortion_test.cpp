// The permuted hash against the independent one: over the coherence sweep, the median distortion over ten seeds is no
// worse than chance explains. And coordinate rows at d = 2 n: CountSketch loses rank, zeta = 4 does not (paper F);
// BlockPerm with contiguous input blocks does (docs/numerics.md).
//
// Allowance. The median of ten normal values has standard deviation 0.372 sigma (exact order statistics), so the
// difference of two independent medians has kMedians = 0.372 sqrt(2) sigma = 0.53 sigma, with sigma pooled from the 2 x
// 10 seeds (18 degrees of freedom). A case may exceed by 4 of them: were both hashes equal, one of the 40 cases would do
// so for one choice of seeds in 60 (Student's t). On average over the bases of one kind of head the excess may be 1.06
// sigma, that is 4 times 0.53 sigma / sqrt(4): the same ten S serve all of them, only the four (zeta, d) are independent.
// Heads apart: where the head comes first, the permuted hash deals its rows almost without collisions and is far better.
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/geometry_study.h"
#include "src/host_backend.h"
#include "src/spread.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 8192, kCols = 128;
constexpr int kSeeds = 10;
constexpr std::uint64_t kFirstSeed = 0, kDataSeed = 123;
constexpr double kMedians = 0.53;
constexpr double kDeviations = 4;

struct World {
  Communicator comm{MPI_COMM_WORLD};
  PhaseTimer timer;
  std::unique_ptr<Backend> backend = make_host_backend(RunOptions{}, comm, timer);
  CoherenceSweep basis{kRows, kCols, kDataSeed};

  GeometryResult study(SketchOptions options, double oversample) {
    options.oversample = oversample;
    options.seed = kFirstSeed;
    return study_geometry(options, kSeeds, 0, basis, *backend, comm);
  }
};

SketchOptions sparse_stack(SketchHash hash, int zeta) {
  SketchOptions options;
  options.hash = hash;
  options.zeta = zeta;
  return options;
}

/// kappa = 2, two nonzeros a block.
SketchOptions block_perm(std::int64_t block_rows, InputBlocks blocks) {
  SketchOptions options;
  options.family = SketchFamily::kBlockPerm;
  options.kappa = 2;
  options.block_nnz = 2;
  options.block_rows = block_rows;
  options.input_blocks = blocks;
  return options;
}

double variance(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return sum / (count - 1);
}

/// By how much the first median exceeds the second, in units of the pooled standard deviation of a seed.
double excess(const GeometryResult& first, const GeometryResult& second) {
  const double sigma = std::sqrt((variance(first.distortion) + variance(second.distortion)) / 2);
  return (spread_of(first.distortion).median - spread_of(second.distortion).median) / sigma;
}

}  // namespace

TEST_CASE("the permuted hash distorts no more than the independent one, from low coherence to coordinate rows") {
  World world;
  for (const HeadRows head : {HeadRows::kFirst, HeadRows::kRandom}) {
    double sum = 0;
    int cases = 0;
    for (const double coherence : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      world.basis.mix(coherence, head);
      for (const int zeta : {2, 4}) {
        for (const double oversample : {2.0, 4.0}) {
          const GeometryResult permuted = world.study(sparse_stack(SketchHash::kPermuted, zeta), oversample);
          const GeometryResult independent = world.study(sparse_stack(SketchHash::kIndependent, zeta), oversample);
          const double by = excess(permuted, independent);
          INFO("seeds " << kFirstSeed << ".., head " << to_word(head) << " coherence " << coherence << " zeta " << zeta
                        << " d/n " << oversample << ": permuted " << spread_of(permuted.distortion).median
                        << " independent " << spread_of(independent.distortion).median << ", by " << by << " sigma");
          CHECK(by <= kDeviations * kMedians);
          CHECK(permuted.rank_losses <= independent.rank_losses);
          sum += by;
          ++cases;
        }
      }
    }
    INFO("head " << to_word(head) << ", mean excess " << sum / cases << " sigma");
    CHECK(sum / cases <= kDeviations * kMedians / std::sqrt(4.0));
  }
}

TEST_CASE("the allowance notices a sketch with a quarter of its rows missing") {
  World world;
  world.basis.mix(0, HeadRows::kFirst);
  const double by = excess(world.study(sparse_stack(SketchHash::kPermuted, 4), 1.5),
                           world.study(sparse_stack(SketchHash::kIndependent, 4), 2));
  INFO("by " << by << " sigma");
  CHECK(by > kDeviations * kMedians);
}

TEST_CASE("on coordinate rows at d = 2 n CountSketch always loses rank and zeta = 4 never does") {
  World world;
  for (const HeadRows head : {HeadRows::kFirst, HeadRows::kRandom}) {
    world.basis.mix(1, head);
    INFO("head " << to_word(head));
    CHECK(world.study(sparse_stack(SketchHash::kIndependent, 1), 2).rank_losses == kSeeds);
    CHECK(world.study(sparse_stack(SketchHash::kIndependent, 4), 2).rank_losses == 0);
    CHECK(world.study(sparse_stack(SketchHash::kPermuted, 4), 2).rank_losses == 0);
  }
}

TEST_CASE("on coordinate rows interleaved BlockPerm keeps full rank, contiguous loses what its blocks cannot hold") {
  World world;
  for (const HeadRows head : {HeadRows::kFirst, HeadRows::kRandom}) {
    world.basis.mix(1, head);
    INFO("head " << to_word(head));
    CHECK(world.study(block_perm(128, InputBlocks::kInterleaved), 2).rank_losses == 0);
    CHECK(world.study(block_perm(32, InputBlocks::kInterleaved), 2).rank_losses == 0);
  }
  // M = 8: the 128 head rows lie in one input block of 1024 rows, which feeds kappa B_r = 64 sketch rows.
  world.basis.mix(1, HeadRows::kFirst);
  CHECK(world.study(block_perm(32, InputBlocks::kContiguous), 2).rank_losses == kSeeds);
}
