// The strip engine's planner: what it serves, that its tiles cover rows once, that its slots hold every entry, that its
// grid fits the device. Pure, so it runs without one.
#include <set>
#include <tuple>

#include "kernels/sketch_rule.h"
#include "kernels/strip_plan.h"
#include "tests/support/catch.h"
#include "tests/support/specs.h"

using namespace tallsketch;
using namespace tallsketch::cuda;

namespace {

SketchSpec spec_of(std::int64_t d, int zeta) { return make_spec(SketchHash::kPermuted, d, zeta); }

}  // namespace

TEST_CASE("The planner serves every multiple of 16 zeta up to 8192 rows, and its stages fit shared memory") {
  const DeviceLimits limits;
  for (int zeta = 1; zeta <= kMaxStripZeta; ++zeta) {
    for (std::int64_t d = 16 * zeta; d <= kMaxStripRows; d += 16 * zeta) {
      const StripPlan plan = make_strip_plan(spec_of(d, zeta), 300, limits);
      INFO("d " << d << " zeta " << zeta);
      REQUIRE(plan.served);
      const std::int64_t size = d / zeta;
      const std::int64_t count = plan.batches_per_tile * (spec_of(d, zeta).batch_rows / size);
      CHECK(plan.buckets * plan.cluster == d);
      CHECK(plan.parts * plan.buckets <= plan.slots());
      CHECK(plan.parts * plan.entries >= count);
      CHECK(plan.stages >= 2);
      CHECK(plan.stages * plan.stage_bytes + 1024 <= limits.shared_bytes);
      CHECK(plan.box_rows <= 256);
      CHECK(std::int64_t{plan.cluster} * plan.boxes * plan.box_rows >= plan.tile_rows);
      CHECK(plan.tile_bytes % 128 == 0);
      CHECK(plan.stage_bytes % 128 == 0);
      CHECK(plan.entry_bytes % 16 == 0);
      // An entry is 2 * row + sign in 16 bits, the row of zeros included.
      CHECK(plan.cluster * plan.boxes * plan.box_rows < 32768);
      CHECK((plan.tiles_per_batch == 1 || plan.batches_per_tile == 1));
    }
  }
}

TEST_CASE("The planner leaves to scatter what the engine cannot do") {
  const DeviceLimits limits;
  SketchSpec spec = spec_of(128, 4);
  CHECK(make_strip_plan(spec, 10, limits).served);
  spec.precision = SketchPrecision::kFp16;
  CHECK_FALSE(make_strip_plan(spec, 10, limits).served);
  CHECK_FALSE(make_strip_plan(spec_of(kMaxStripRows + 4, 4), 10, limits).served);
  CHECK_FALSE(make_strip_plan(spec_of(17 * 16, 17), 10, limits).served);
  CHECK_FALSE(make_strip_plan(spec_of(2049, 1), 10, limits).served);  // an odd d does not split over two CTAs
}

TEST_CASE("Launches share out the blocks of a SparseStack beyond what registers hold, and of nothing else") {
  for (const auto& [d, zeta, launches] : {std::tuple<std::int64_t, int, int>{8192, 4, 1},
                                          {8208, 4, 2},
                                          {16384, 4, 2},
                                          {16384, 2, 2},
                                          {16400, 4, 4},
                                          {32768, 8, 4},
                                          {65536, 8, 4},
                                          {12288, 3, 1}}) {
    CAPTURE(d, zeta);
    const SketchSpec whole = spec_of(d, zeta), share = launch_share(whole);
    CHECK(share.d * launches == d);
    CHECK(share.zeta * launches == zeta);
    CHECK(share.batch_rows == whole.batch_rows);
    CHECK(make_strip_plan(share, 1000, {}).served == (share.d <= kMaxStripRows));
  }
  SketchSpec independent = spec_of(16384, 4);
  independent.hash = SketchHash::kIndependent;
  CHECK(launch_share(independent).d == 16384);
}

TEST_CASE("Tiles of a slab hold its first and last row and nothing beyond their neighbours") {
  for (const auto& [d, zeta] : {std::pair<std::int64_t, int>{128, 4}, {2048, 1}, {4096, 8}, {320, 4}, {8192, 16}}) {
    const SketchSpec spec = spec_of(d, zeta);
    const StripPlan plan = make_strip_plan(spec, 64, {});
    const auto begin_of = [&](std::int64_t tile) {
      return first_row_of_tile(tile, plan.tile_rows, plan.tiles_per_batch, spec.batch_rows);
    };
    for (const std::int64_t first :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{511}, std::int64_t{512}, (std::int64_t{1} << 41) + 3}) {
      for (const std::int64_t rows : {1, 511, 512, 513, 5000}) {
        const TileRange tiles = tiles_of_rows(plan, spec, first, rows);
        INFO("d " << d << " zeta " << zeta << " first " << first << " rows " << rows);
        CHECK(begin_of(tiles.first) <= first);
        CHECK(begin_of(tiles.first + 1) > first);
        CHECK(begin_of(tiles.first + tiles.count - 1) <= first + rows - 1);
        CHECK(begin_of(tiles.first + tiles.count) > first + rows - 1);
      }
      CHECK(tiles_of_rows(plan, spec, first, 0).count == 0);
    }
  }
}

TEST_CASE("The grid covers every strip and tile once and never asks for more clusters than the device holds") {
  const DeviceLimits limits;
  for (const std::int64_t n : {1, 32, 33, 64, 96, 600, 1000, 1024, 1025, 1500, 2048, 4096, 100000}) {
    for (const std::int64_t d : {128, 2048, 4096, 8192}) {
      for (const std::int64_t tiles : {1, 2, 63, 4096}) {
        const StripPlan plan = make_strip_plan(spec_of(d, 4), n, limits);
        const StripGrid grid = make_strip_grid(plan, tiles, limits);
        INFO("n " << n << " d " << d << " tiles " << tiles);
        CHECK(grid.clusters() * plan.cluster <= limits.multiprocessors);
        CHECK(grid.splits >= 1);
        CHECK(grid.splits <= tiles);
        CHECK(grid.splits <= most_splits(plan, limits));
        CHECK(std::int64_t{grid.waves} * grid.strips_per_wave >= plan.strips);
        CHECK(std::int64_t{grid.waves - 1} * grid.strips_per_wave < plan.strips);
        CHECK(split_begin(0, grid.splits, tiles) == 0);
        CHECK(split_begin(grid.splits, grid.splits, tiles) == tiles);
      }
    }
  }
}

TEST_CASE("A pitch holds the columns in whole strips") {
  for (std::int64_t n = 1; n < 200; ++n) {
    const std::int64_t pitch = device_pitch(n);
    const StripPlan plan = make_strip_plan(spec_of(512, 4), n, {});
    CHECK(pitch >= n);
    CHECK(pitch % 4 == 0);
    CHECK(plan.strips * plan.width == pitch);
  }
}

TEST_CASE("The independent hash is served too, with room for all entries of a tile") {
  const DeviceLimits limits;
  for (int zeta = 1; zeta <= kMaxStripZeta; ++zeta) {
    for (std::int64_t d = 16 * zeta; d <= kMaxStripRows; d += 16 * zeta + 1) {  // not only multiples of zeta
      SketchSpec spec = spec_of(d, zeta);
      spec.hash = SketchHash::kIndependent;
      const StripPlan plan = make_strip_plan(spec, 300, limits);
      INFO("d " << d << " zeta " << zeta);
      REQUIRE(plan.served);
      CHECK(plan.tiles_per_batch == 1);
      CHECK(plan.buckets * plan.cluster >= d);
      CHECK(plan.parts * plan.buckets <= plan.slots());
      CHECK(plan.entry_bytes % 16 == 0);
      CHECK(plan.stages * plan.stage_bytes + 1024 <= limits.shared_bytes);
      CHECK(plan.tail_capacity < 65536);  // offsets are 16 bits
      // All entries of a tile fit the slots and the tails together.
      CHECK(plan.parts * plan.buckets * plan.entries + plan.tail_capacity >= plan.tile_rows * zeta / plan.cluster);
    }
  }
}

TEST_CASE("The tails of real tiles fit their room, with few buckets of many entries and many of few") {
  const DeviceLimits limits;
  struct Shape {
    std::int64_t d, n;
    int zeta;
  };
  for (const Shape& s : {Shape{2, 1, 1}, Shape{4, 3, 2}, Shape{9, 8, 3}, Shape{17, 16, 1}, Shape{64, 32, 4},
                         Shape{300, 100, 3}, Shape{2048, 1024, 4}, Shape{8192, 4096, 16}}) {
    const SketchSpec spec = make_spec(SketchHash::kIndependent, s.d, s.zeta);
    const StripPlan plan = make_strip_plan(spec, s.n, limits);
    REQUIRE(plan.served);
    std::int64_t most = 0;
    for (std::int64_t tile = 0; tile < 40; ++tile) {
      std::vector<std::int64_t> entries(static_cast<std::size_t>(s.d));
      for (std::int64_t row = tile * plan.tile_rows; row < (tile + 1) * plan.tile_rows; ++row) {
        for (int t = 0; t < s.zeta; ++t) ++entries[static_cast<std::size_t>(sketch_entry(spec, row, t).sketch_row)];
      }
      for (int cta = 0; cta < plan.cluster; ++cta) {
        std::int64_t tails = 0;
        for (std::int64_t row = cta * plan.buckets; row < std::min(s.d, (cta + 1) * plan.buckets); ++row) {
          tails += std::max<std::int64_t>(0, entries[static_cast<std::size_t>(row)] - plan.parts * plan.entries);
        }
        most = std::max(most, tails);
      }
    }
    INFO("d " << s.d << " zeta " << s.zeta << " room " << plan.tail_capacity << " most " << most);
    CHECK(most < plan.tail_capacity);
    CHECK(plan.tail_capacity < 3 * most + 1000);  // and no room for nothing
  }
}

TEST_CASE("The planner serves interleaved BlockPerm wherever its table fits, and its slots hold all entries") {
  const DeviceLimits limits;
  int served = 0, refused = 0;
  for (const std::int64_t block_rows : {8, 64, 100, 128, 256}) {
    for (std::int64_t d = block_rows; d <= kMaxStripRows; d += 3 * block_rows) {
      for (const std::int32_t kappa : {1, 2, 3, 4, 8}) {
        for (const std::int32_t s : {1, 2, 4}) {
          if (kappa > d / block_rows || kappa * s > kMaxStripZeta) continue;
          const SketchSpec spec = make_block_spec(SketchHash::kPermuted, d, block_rows, kappa, s);
          const StripPlan plan = make_strip_plan(spec, 300, limits);
          INFO("d " << d << " B_r " << block_rows << " kappa " << kappa << " s " << s);
          (plan.served ? served : refused) += 1;
          if (!plan.served) continue;
          CHECK(plan.parts * plan.entries >= plan.batches_per_tile * fixed_rows_per_bucket(spec));
          CHECK(plan.buckets * plan.cluster == d);
          CHECK(plan.stages >= 2);
        }
      }
    }
  }
  CHECK(served > 9 * refused);
  CHECK_FALSE(make_strip_plan(make_block_spec(SketchHash::kIndependent, 256, 128, 2, 2), 300, limits).served);
  CHECK_FALSE(make_strip_plan(make_block_spec(SketchHash::kPermuted, 256, 128, 2, 2, 5000), 300, limits).served);
  CHECK(make_strip_plan(make_block_spec(SketchHash::kPermuted, 2048, 128, 2, 2), 1024, limits).width == 32);
}

TEST_CASE("Half precision is served for the permuted hash up to 4096 rows, in strips of the same bytes as FP32's") {
  const DeviceLimits limits;
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16}) {
    for (int zeta = 1; zeta <= kMaxStripZeta; ++zeta) {
      for (std::int64_t d = 16 * zeta; d <= 4096; d += 16 * zeta) {
        const StripPlan plan = make_strip_plan(spec_of(d, zeta), 300, limits, type);
        INFO("d " << d << " zeta " << zeta);
        REQUIRE(plan.served);
        CHECK(plan.type == type);
        CHECK(plan.width == (d <= 1024 ? 64 : d <= 2048 ? 32 : 16));
        CHECK(plan.buckets * plan.cluster == d);
        CHECK(plan.parts * plan.buckets <= plan.slots());
        CHECK(plan.stages >= 2);
        CHECK(plan.stages * plan.stage_bytes + 1024 <= limits.shared_bytes);
        CHECK(plan.tail_capacity == 0);
        CHECK(plan.box_rows <= 256);
        CHECK(plan.box_rows * plan.row_bytes() % 128 == 0);
        CHECK(plan.tile_bytes == plan.cluster * plan.boxes * plan.box_rows * plan.row_bytes());
        CHECK(std::int64_t{plan.cluster} * plan.boxes * plan.box_rows >= plan.tile_rows);
        CHECK(plan.stage_bytes % 128 == 0);
        CHECK(plan.cluster * plan.boxes * plan.box_rows < 32768);
      }
    }
    CHECK_FALSE(make_strip_plan(spec_of(4100, 4), 300, limits, type).served);
    SketchSpec independent = spec_of(128, 4);
    independent.hash = SketchHash::kIndependent;
    CHECK_FALSE(make_strip_plan(independent, 300, limits, type).served);
  }
  CHECK_FALSE(make_strip_plan(spec_of(128, 4), 300, limits, ElementType::kFloat64).served);
}

TEST_CASE("A pitch of halves holds the columns in whole lines, and whole strips of every width") {
  for (std::int64_t n = 1; n < 300; ++n) {
    const std::int64_t pitch = device_pitch(n, ElementType::kFloat16);
    CHECK(pitch >= n);
    CHECK(pitch % 8 == 0);
    CHECK((n <= 32 || pitch % 64 == 0));
    for (const std::int64_t d : {64, 1024, 2048, 4096}) {
      const StripPlan plan = make_strip_plan(spec_of(d, 4), n, {}, ElementType::kFloat16);
      CHECK(plan.strips * plan.width >= n);
      CHECK(plan.strips * plan.width <= pitch);
    }
  }
}
