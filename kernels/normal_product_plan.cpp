#include "kernels/normal_product_plan.h"

#include <algorithm>

#include "kernels/rounding.h"

namespace tallsketch::cuda {

namespace {

constexpr std::int64_t kStaticBytes = 5120;  // barriers and sums between warps, beside the rings
constexpr int kFewestStages = 3;

// Above this width and with one right-hand side a lane holds 16 columns of one row instead of 8 columns of two, so that
// a CTA still has several teams, which work while others wait for their sums.
constexpr std::int64_t kWidestWith8Columns = 2048;

/// Columns of a lane; 0: no shape takes so wide a row.
int lane_columns_for(std::int64_t n, int rhs, ElementType type) {
  const auto chunk = static_cast<int>(16 / element_size(type));
  const std::int64_t lanes = most_warps(rhs) * 32;
  if (n <= 32 * chunk) return chunk;
  if (n <= (rhs == 1 ? kWidestWith8Columns : lanes * 8)) return 8;
  return rhs == 1 && n <= lanes * 16 ? 16 : 0;
}

void cut_rows(NormalProductPlan& plan, int columns) {
  const auto chunk = static_cast<int>(16 / element_size(plan.type));
  plan.chunks = columns / chunk;
  plan.row_lanes = plan.chunks > 1 || plan.n > 16 * chunk ? 32 : plan.n > 8 * chunk ? 16 : 8;
  plan.team_warps = static_cast<int>(divide_up(plan.n, 32 * columns));
  plan.teams = most_warps(plan.rhs) / plan.team_warps;
  plan.tile_rows = 32 / plan.row_lanes * rows_at_once(columns, plan.rhs);
}

// Where tensor cores are faster (bench_passes_rhs.jsonl). They do the work of four right-hand sides for fewer too.
constexpr std::int64_t kWidestOnTensorCores = 1024;
constexpr std::int64_t kNarrowestPairOnTensorCores = 257;  // for two right-hand sides of FP32
constexpr std::int64_t kWidestWith2Groups = 128;

bool prefers_tensor_cores(std::int64_t n, std::int64_t r, ElementType type) {
  if (type == ElementType::kFloat64 || n > kWidestOnTensorCores || r < 2) return false;
  return r > 2 || n >= kNarrowestPairOnTensorCores;
}

void cut_rows_for_tensor_cores(NormalProductPlan& plan, const DeviceLimits& limits) {
  plan.tensor = true;
  plan.groups = plan.n <= kWidestWith2Groups ? 2 : 4;
  plan.row_lanes = 32;
  plan.team_warps = static_cast<int>(divide_up(plan.n, 32 * plan.groups));
  plan.teams = most_tensor_warps(plan.groups) / plan.team_warps;
  plan.tile_rows = kTensorRows;
  const std::int64_t boards = kTensorStaticBytes + plan.teams * kTensorTeamBytes;
  const std::int64_t fitting = (limits.shared_bytes - boards) / (plan.teams * plan.tile_bytes());
  plan.stages = static_cast<int>(std::min<std::int64_t>(fitting, kMostStages));
  plan.shared_bytes = plan.rings_bytes() + plan.teams * kTensorTeamBytes;
  plan.fused = plan.stages >= kFewestTensorStages;
}

}  // namespace

NormalProductPlan make_normal_product_plan(std::int64_t n, std::int64_t pitch, std::int64_t r, ElementType type,
                                           const DeviceLimits& limits, bool bulk_copies) {
  NormalProductPlan plan;
  plan.type = type;
  plan.n = n;
  plan.pitch = pitch;
  plan.rhs = r <= 1 ? 1 : r == 2 ? 2 : 4;
  plan.multiprocessors = limits.multiprocessors;
  if (!bulk_copies || pitch * element_size(type) % 16 != 0) return plan;

  if (prefers_tensor_cores(n, r, type)) {
    plan.rhs = kTensorRhs;
    cut_rows_for_tensor_cores(plan, limits);
    return plan;
  }
  int rhs = plan.rhs;
  while (rhs > 1 && lane_columns_for(n, rhs, type) == 0) rhs /= 2;
  const int columns = lane_columns_for(n, rhs, type);
  if (columns == 0) return plan;
  plan.rhs = rhs;
  cut_rows(plan, columns);
  const std::int64_t fitting = (limits.shared_bytes - kStaticBytes) / (plan.teams * plan.tile_bytes());
  plan.stages = static_cast<int>(std::min<std::int64_t>(fitting, kMostStages));
  // At the end the rings' memory takes the CTA's partial result.
  plan.shared_bytes = std::max(plan.rings_bytes(), plan.partial_doubles() * 8);
  plan.fused = plan.stages >= kFewestStages && plan.shared_bytes + kStaticBytes <= limits.shared_bytes;
  return plan;
}

}  // namespace tallsketch::cuda
