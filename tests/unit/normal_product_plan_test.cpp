// The plan of the refinement pass: which shapes are fused, that lanes cover every column once and warps do not exceed the
// registers, that rings fit shared memory. Pure, so it runs without a device.
#include "kernels/normal_product_plan.h"
#include "src/text.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using namespace tallsketch::cuda;

namespace {

constexpr ElementType kTypes[] = {ElementType::kFloat32, ElementType::kFloat64, ElementType::kFloat16,
                                  ElementType::kBfloat16};

NormalProductPlan plan_of(std::int64_t n, std::int64_t r, ElementType type) {
  return make_normal_product_plan(n, device_pitch(n, type), r, type, DeviceLimits{}, true);
}

void check_tensor_plan(const NormalProductPlan& plan) {
  REQUIRE(plan.type != ElementType::kFloat64);
  REQUIRE(plan.rhs == kTensorRhs);
  REQUIRE(plan.tile_rows == kTensorRows);
  REQUIRE((plan.groups == 2 || plan.groups == 4));
  const std::int64_t columns = std::int64_t{plan.team_warps} * plan.groups * 32;
  REQUIRE(columns >= plan.n);
  REQUIRE(plan.warps() <= most_tensor_warps(plan.groups));
  REQUIRE(plan.stages >= kFewestTensorStages);
  REQUIRE(plan.shared_pitch() >= columns * element_size(plan.type));  // lanes read, and find zeros, up to there
  REQUIRE(plan.shared_pitch() % 128 == 32);                           // four rows in different banks
  REQUIRE(plan.shared_bytes == plan.rings_bytes() + plan.teams * kTensorTeamBytes);
  REQUIRE(plan.shared_bytes + kTensorStaticBytes <= DeviceLimits{}.shared_bytes);
}

}  // namespace

TEST_CASE("Every width up to 8192 is fused, covered by the lanes, and its rings fit shared memory") {
  const DeviceLimits limits;
  for (const ElementType type : kTypes) {
    for (std::int64_t n = 1; n <= 8192; ++n) {
      for (const std::int64_t r : {1, 2, 4}) {
        const NormalProductPlan plan = plan_of(n, r, type);
        INFO(to_word(type) << " n " << n << " r " << r);
        REQUIRE(plan.fused);
        REQUIRE(plan.teams >= 1);
        REQUIRE(plan.stages <= kMostStages);
        REQUIRE(plan.tile_bytes() % 16 == 0);
        REQUIRE(plan.shared_bytes >= 8 * plan.partial_doubles());
        if (plan.tensor) {
          check_tensor_plan(plan);
          continue;
        }
        REQUIRE(std::int64_t{plan.row_lanes} * plan.team_warps * plan.lane_columns() >= n);
        REQUIRE((plan.lane_columns() <= 8 || (plan.lane_columns() == 16 && plan.rhs == 1)));
        REQUIRE((plan.row_lanes == 32 || plan.team_warps == 1));
        REQUIRE(plan.tile_rows == 32 / plan.row_lanes * rows_at_once(plan.lane_columns(), plan.rhs));
        REQUIRE(rows_at_once(plan.lane_columns(), plan.rhs) * plan.rhs <= 8);
        REQUIRE(plan.warps() <= most_warps(plan.rhs));
        REQUIRE((plan.team_warps == 1 || plan.teams <= 8));  // named barriers 1, ..., 8
        REQUIRE(plan.stages >= 3);
        REQUIRE(plan.shared_bytes >= plan.rings_bytes());
        REQUIRE(plan.shared_bytes + 4096 <= limits.shared_bytes);
      }
    }
  }
}

TEST_CASE("Narrow rows share a warp, and wide ones leave several teams to a CTA") {
  CHECK(plan_of(32, 1, ElementType::kFloat32).row_lanes == 8);
  CHECK(plan_of(33, 1, ElementType::kFloat32).row_lanes == 16);
  CHECK(plan_of(64, 1, ElementType::kFloat32).row_lanes == 16);
  CHECK(plan_of(65, 1, ElementType::kFloat32).row_lanes == 32);
  CHECK(plan_of(64, 1, ElementType::kFloat16).row_lanes == 8);
  CHECK(plan_of(65, 1, ElementType::kFloat64).row_lanes == 32);
  CHECK(plan_of(256, 1, ElementType::kFloat32).teams == 16);
  CHECK(plan_of(257, 1, ElementType::kFloat32).teams == 8);
  CHECK(plan_of(1024, 1, ElementType::kFloat32).teams == 4);
  CHECK(plan_of(2048, 1, ElementType::kFloat32).teams == 2);
  CHECK(plan_of(4096, 1, ElementType::kFloat32).teams == 2);
  CHECK(plan_of(8192, 1, ElementType::kFloat32).teams == 1);
}

TEST_CASE("Right-hand sides go four, two or one a launch, as the registers allow") {
  const ElementType type = ElementType::kFloat32;
  CHECK(plan_of(1024, 1, type).rhs == 1);
  CHECK(plan_of(256, 2, type).rhs == 2);
  CHECK(plan_of(2048, 2, type).rhs == 2);
  CHECK(plan_of(1024, 3, type).rhs == 4);
  CHECK(plan_of(1024, 9, type).rhs == 4);
  CHECK(plan_of(2048, 4, type).rhs == 4);
  CHECK(plan_of(2049, 4, type).rhs == 2);
  CHECK(plan_of(3072, 4, type).rhs == 2);
  CHECK(plan_of(3073, 4, type).rhs == 1);
}

TEST_CASE("Tensor cores serve several right-hand sides where they are faster") {
  const ElementType type = ElementType::kFloat32;
  for (const std::int64_t n : {1, 256, 1024}) {
    CHECK_FALSE(plan_of(n, 1, type).tensor);
    CHECK(plan_of(n, 3, type).tensor);
    CHECK(plan_of(n, 4, type).tensor);
    CHECK_FALSE(plan_of(n, 4, ElementType::kFloat64).tensor);
    CHECK(plan_of(n, 4, ElementType::kFloat16).tensor);
  }
  CHECK_FALSE(plan_of(1025, 4, type).tensor);
  CHECK_FALSE(plan_of(256, 2, type).tensor);
  CHECK(plan_of(257, 2, type).tensor);
  CHECK(plan_of(257, 2, type).rhs == 4);
  CHECK(plan_of(128, 4, type).groups == 2);
  CHECK(plan_of(129, 4, type).groups == 4);
  CHECK(plan_of(1024, 4, type).team_warps == 8);
}

TEST_CASE("What bulk copies cannot bring goes to the simple kernel") {
  const DeviceLimits limits;
  const ElementType type = ElementType::kFloat32;
  CHECK_FALSE(plan_of(8193, 1, type).fused);
  CHECK_FALSE(make_normal_product_plan(100, 128, 1, type, limits, false).fused);
  CHECK_FALSE(make_normal_product_plan(100, 101, 1, type, limits, true).fused);
  CHECK(make_normal_product_plan(100, 100, 1, type, limits, true).fused);
  CHECK_FALSE(make_normal_product_plan(100, 100, 1, ElementType::kFloat16, limits, true).fused);
  CHECK_FALSE(make_normal_product_plan(100, std::int64_t{1} << 40, 1, type, limits, true).fused);
  CHECK(make_normal_product_plan(9000, 9000, 3, type, limits, true).scratch_doubles() == 132 * 9001 * 4);
}
