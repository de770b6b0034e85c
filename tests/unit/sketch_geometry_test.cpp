// Distortion, rank loss and BlockPerm's coherences, on matrices whose answers are known.
#include <cmath>
#include <limits>
#include <vector>

#include "src/coherence_sweep.h"
#include "src/error.h"
#include "src/geometry_study.h"
#include "src/sketch_geometry.h"
#include "src/spread.h"
#include "tests/support/catch.h"
#include "tests/support/specs.h"

using namespace tallsketch;

TEST_CASE("the extremes of a scaled diagonal matrix are its entries, and further columns do not count") {
  // (d, cols) = (4, 3), n = 2: columns (6, 0, 0, 0) and (0, 0, 1, 0), scaled by 1/2; the third is b's.
  const std::vector<double> sketch = {6, 0, 9, 0, 0, 9, 0, 1, 9, 0, 0, 9};
  const SketchGeometry geometry = measure_geometry(sketch, 4, 2, 3, 0.5);
  CHECK(geometry.largest == Catch::Approx(3));
  CHECK(geometry.smallest == Catch::Approx(0.5));
  CHECK(geometry.distortion() == Catch::Approx(8));
  CHECK(geometry.length_distortion() == Catch::Approx(2));
  CHECK(measure_geometry({1, 0, 0, 0.25}, 2, 2, 2, 1).length_distortion() == Catch::Approx(0.75));
  CHECK(!geometry.loses_rank());
}

TEST_CASE("a lost direction has distortion 1 at least and is told from a short one") {
  CHECK(measure_geometry({1, 1, 0, 0, 0, 0}, 3, 2, 2, 1).loses_rank());
  CHECK(measure_geometry({1, 0, 0, 0, 0, 0}, 3, 2, 2, 1).distortion() == Catch::Approx(1));
  CHECK(measure_geometry({1, 0, 0, 0.9e-6F, 0, 0}, 3, 2, 2, 1).loses_rank());
  CHECK(!measure_geometry({1, 0, 0, 1.1e-6F, 0, 0}, 3, 2, 2, 1).loses_rank());
}

TEST_CASE("a sketch that overflowed is refused") {
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    CHECK_THROWS_AS(measure_geometry({1, 0, value, 1}, 2, 2, 2, 1), Error);
  }
}

TEST_CASE("the Gaussian yardstick follows the Marchenko-Pastur edge") {
  // (1 + sqrt(n/d))^2 - 1 with fluctuations of order d^(-2/3) below it.
  CHECK(gaussian_geometry(2048, 128, 5).distortion() == Catch::Approx(0.5625).margin(0.05));
  CHECK(gaussian_geometry(512, 128, 5).distortion() == Catch::Approx(1.25).margin(0.12));
}

TEST_CASE("median, least and largest of an odd and an even number of values") {
  const Spread odd = spread_of({3, 1, 2}), even = spread_of({4, 1, 2, 8});
  CHECK(odd.median == 2);
  CHECK(odd.least == 1);
  CHECK(odd.largest == 3);
  CHECK(even.median == 3);
  CHECK(spread_of({7}).median == 7);
}

TEST_CASE("BlockPerm's coherences of coordinate rows are M and M / kappa") {
  CoherenceSweep sweep(512, 16, 1);
  for (const std::int64_t total_rows : {0, 512}) {
    for (const int kappa : {1, 2, 8}) {
      const SketchSpec spec = make_block_spec(SketchHash::kPermuted, 64, 8, kappa, 2, total_rows);  // M = 8
      sweep.mix(1, HeadRows::kFirst);
      const BlockCoherence coherence(sweep, spec);
      INFO("kappa " << kappa << " total rows " << total_rows);
      CHECK(coherence.of_blocks() == Catch::Approx(8));
      CHECK(coherence.of_neighbourhoods(spec) == Catch::Approx(8.0 / kappa));
    }
  }
}

TEST_CASE("the neighbourhood coherence lies between the block coherence and its share") {
  CoherenceSweep sweep(1000, 12, 2);
  for (const double t : {0.0, 0.5, 0.9}) {
    sweep.mix(t, HeadRows::kRandom);
    for (const int kappa : {1, 2, 3, 5}) {
      const SketchSpec spec = make_block_spec(SketchHash::kPermuted, 80, 16, kappa, 2, 0, 77);  // M = 5
      const BlockCoherence coherence(sweep, spec);
      const double blocks = coherence.of_blocks(), neighbourhoods = coherence.of_neighbourhoods(spec);
      INFO("t " << t << " kappa " << kappa << " wiring seed 77");
      constexpr double kRounding = 1e-6;  // U is stored in FP32
      CHECK(neighbourhoods <= blocks * (1 + kRounding));
      CHECK(neighbourhoods >= blocks / kappa * (1 - kRounding));
      CHECK(blocks >= 1 - kRounding);
      if (kappa == 1) CHECK(neighbourhoods == Catch::Approx(blocks));
      if (kappa == 5) CHECK(neighbourhoods == Catch::Approx(1).epsilon(1e-6));
    }
  }
}
