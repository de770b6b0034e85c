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

// Where tensor cores are faster (bench_passes_rhs.jsonl). They do the work of four right-hand sides for fewer too, so
// that a pair gains less; and 16-bit elements come faster than they can be widened twice.
bool prefers_tensor_cores(std::int64_t n, std::int64_t r, ElementType type) {
  if (type == ElementType::kFloat64 || n > 1024 || r < 2) return false;
  if (type == ElementType::kFloat32) return n > (r == 2 ? 256 : 64);
  return n > (r == 2 ? 768 : 128);
}

int tensor_team_warps(std::int64_t n, int groups) { return static_cast<int>(divide_up(n, 32 * groups)); }

/// Two groups a warp, or four where those keep a larger share of their warps at work.
int tensor_groups_for(std::int64_t n) {
  const auto busy = [n](int groups) { return most_tensor_warps(groups) / tensor_team_warps(n, groups); };
  return busy(2) * most_tensor_warps(4) * 4 >= busy(4) * most_tensor_warps(2) * 2 ? 2 : 4;
}

NormalProductPlan with_tensor_cores(NormalProductPlan plan, const DeviceLimits& limits) {
  plan.tensor = true;
  plan.rhs = kTensorRhs;
  plan.groups = tensor_groups_for(plan.n);
  plan.row_lanes = 32;
  plan.team_warps = tensor_team_warps(plan.n, plan.groups);
  plan.teams = most_tensor_warps(plan.groups) / plan.team_warps;
  plan.tile_rows = kTensorRows;
  const std::int64_t boards = plan.teams * kTensorTeamBytes;
  const std::int64_t fitting = (limits.shared_bytes - kTensorStaticBytes - boards) / (plan.teams * plan.tile_bytes());
  plan.stages = static_cast<int>(std::min<std::int64_t>(fitting, kMostStages));
  plan.shared_bytes = plan.rings_bytes() + boards;
  plan.fused = plan.stages >= kFewestTensorStages;
  return plan;
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
    const NormalProductPlan tensor = with_tensor_cores(plan, limits);
    if (tensor.fused) return tensor;
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
