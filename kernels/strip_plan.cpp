#include "kernels/strip_plan.h"

#include <algorithm>
#include <cmath>

#include "kernels/block_table.h"
#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "kernels/tail_table.h"

namespace tallsketch::cuda {

namespace {

constexpr std::int64_t kMaxBoxRows = 256;      // of a TMA copy
constexpr std::int64_t kTileBytes = 65536;     // 512 rows of 128 bytes: three stages fit with their entries
constexpr std::int64_t kReservedBytes = 1024;  // barriers and alignment
constexpr int kGoodStages = 3;                 // probe: two stages cost 14 %

/// Tail entries of a CTA in a tile that are as good as never exceeded: mean and twelve standard deviations of
/// sum over buckets of max(0, X - dense), X Poisson with the mean number of entries of a bucket.
std::int64_t tail_capacity_for(double mean_entries, std::int64_t dense, std::int64_t buckets) {
  double first = 0, second = 0;
  const auto most = static_cast<std::int64_t>(mean_entries + 40 * std::sqrt(mean_entries) + 60);
  for (std::int64_t x = 0; x <= most; ++x) {
    const auto excess = static_cast<double>(std::max<std::int64_t>(0, x - dense));
    const auto count = static_cast<double>(x);
    // By logarithms: exp(-mean) alone is zero from a mean of 745 on.
    const double probability = std::exp(count * std::log(mean_entries) - mean_entries - std::lgamma(count + 1));
    first += probability * excess;
    second += probability * excess * excess;
  }
  const auto n = static_cast<double>(buckets);
  return round_up(static_cast<std::int64_t>(n * first + 12 * std::sqrt(n * (second - first * first))) + 64, 4);
}

/// Sizes of a tile, its entries and the stages, for plan.batches_per_tile and plan.tiles_per_batch.
void lay_out_stage(const SketchSpec& spec, const DeviceLimits& limits, StripPlan& plan) {
  const std::int64_t row_bytes = plan.row_bytes();
  const std::int64_t per_cta = divide_up(plan.tile_rows, plan.cluster);
  plan.boxes = static_cast<int>(divide_up(per_cta, kMaxBoxRows));
  // Copies land on multiples of 128 bytes in shared memory.
  plan.box_rows =
      static_cast<int>(round_up(divide_up(per_cta, plan.boxes), 128 / std::min<std::int64_t>(128, row_bytes)));
  plan.tile_bytes = std::int64_t{plan.cluster} * plan.boxes * plan.box_rows * row_bytes;

  plan.buckets = divide_up(spec.d, plan.cluster);
  if (fixed_rows_per_bucket(spec) > 0) {
    const std::int64_t count =
        plan.batches_per_tile * fixed_rows_per_bucket(spec);  // rows of a bucket in a tile, at most
    plan.parts = static_cast<int>(std::clamp<std::int64_t>(plan.slots() / plan.buckets, 1, count));
    plan.entries = static_cast<int>(divide_up(count, plan.parts));
    plan.entry_bytes = plan.dense_bytes();
  } else {
    const double mean = static_cast<double>(plan.tile_rows) / static_cast<double>(spec.d / spec.zeta);
    const auto mean_up = static_cast<std::int64_t>(std::ceil(mean));
    plan.parts = static_cast<int>(std::clamp<std::int64_t>(plan.slots() / plan.buckets, 1, mean_up));
    // Spare entries against tails, which cost several times as much each. n = 1024, d = 2048 on an H200 with 0 / 1 / 2 spare,
    // complete floors: zeta = 1 (mean 1/4) 1.45 / 1.88 / -, zeta = 2 1.76 / 1.92 / -, zeta = 4 2.79 / 2.27 / 2.49.
    const int spare = plan.parts == 1 && mean > 0.5 ? 1 : 0;
    plan.entries = static_cast<int>(divide_up(mean_up, plan.parts)) + spare;
    plan.tail_capacity = tail_capacity_for(mean, std::int64_t{plan.parts} * plan.entries, plan.buckets);
    plan.entry_bytes = plan.dense_bytes() + plan.offset_bytes() + plan.tail_capacity * 4;
  }
  plan.stage_bytes = plan.tile_bytes + kZeroRowBytes + round_up(plan.entry_bytes, 128);
  plan.stages =
      static_cast<int>(std::min<std::int64_t>(kMaxStages, (limits.shared_bytes - kReservedBytes) / plan.stage_bytes));
}

/// Tables are made in shared memory: the independent hash's by counting, BlockPerm's by shuffles of 16-bit entries.
bool table_fits(const SketchSpec& spec, const DeviceLimits& limits, const StripPlan& plan) {
  if (plan.tail_capacity > 0) return tail_table_layout(spec, plan).bytes <= limits.shared_bytes - kTailStaticBytes;
  return spec.family != SketchFamily::kBlockPerm ||
         (block_table_layout(spec, plan).tile_bytes <= limits.shared_bytes && spec.batch_rows <= 32768);
}

}  // namespace

SketchSpec launch_share(const SketchSpec& spec) {
  SketchSpec share = spec;
  const bool divisible = spec.family == SketchFamily::kSparseStack && spec.hash == SketchHash::kPermuted;
  for (int launches = 1; divisible && launches < kMaxLaunches && share.d > kMaxStripRows && share.zeta % 2 == 0;
       launches *= 2) {
    share.d /= 2;
    share.zeta /= 2;
  }
  return share;
}

StripPlan make_strip_plan(const SketchSpec& spec, std::int64_t n, const DeviceLimits& limits, ElementType type) {
  StripPlan plan;
  plan.type = type;
  const bool fixed_counts = fixed_rows_per_bucket(spec) > 0;
  // Tails in half precision would take three kernels more, for what is bound by its tables.
  const bool with_tails = spec.family == SketchFamily::kSparseStack && spec.hash == SketchHash::kIndependent &&
                          type == ElementType::kFloat32;
  if (spec.precision != SketchPrecision::kFp32 || spec.zeta > kMaxStripZeta || spec.d > kMaxStripRows ||
      type == ElementType::kFloat64 || !(fixed_counts || with_tails)) {
    return plan;
  }
  // The widest strip whose accumulators fit two CTAs, because wide strips read whole cache lines; one CTA where that is
  // enough, because a lone CTA needs no barriers across SMs. Measured: CL = 4 is slower than a narrower strip.
  for (const std::int64_t row_bytes : {128, 64, 32}) {
    plan.width = static_cast<int>(row_bytes / element_size(type));
    if (spec.d <= 2 * plan.slots() && plan.width <= device_pitch(n, type)) break;
  }
  plan.cluster = spec.d <= plan.slots() ? 1 : 2;
  if (spec.d > plan.cluster * plan.slots() || (fixed_counts && spec.d % plan.cluster != 0)) return plan;
  plan.strips = divide_up(n, plan.width);

  const std::int64_t most_rows = kTileBytes / plan.row_bytes();
  if (!fixed_counts) {
    for (plan.tile_rows = most_rows; plan.tile_rows >= 64; plan.tile_rows /= 2) {
      lay_out_stage(spec, limits, plan);
      if (plan.stages >= kGoodStages) break;
    }
    plan.served = plan.stages >= 2 && table_fits(spec, limits, plan);
    return plan;
  }
  plan.tiles_per_batch = static_cast<int>(divide_up(spec.batch_rows, most_rows));
  // As many batches a tile as fit, for fewer barriers; but three stages come first, because they hide the copies.
  for (std::int64_t batches = std::max<std::int64_t>(1, most_rows / spec.batch_rows); batches >= 1; --batches) {
    plan.batches_per_tile = static_cast<int>(batches);
    plan.tile_rows = plan.tiles_per_batch > 1 ? divide_up(spec.batch_rows, plan.tiles_per_batch)
                                              : plan.batches_per_tile * spec.batch_rows;
    lay_out_stage(spec, limits, plan);
    if (plan.stages >= kGoodStages) break;
  }
  plan.served = plan.stages >= 2 && table_fits(spec, limits, plan);
  return plan;
}

TileRange tiles_of_rows(const StripPlan& plan, const SketchSpec& spec, std::int64_t first_row, std::int64_t rows) {
  const auto tile_of = [&](std::int64_t row) {
    if (plan.tiles_per_batch == 1) return row / plan.tile_rows;
    return row / spec.batch_rows * plan.tiles_per_batch + row % spec.batch_rows / plan.tile_rows;
  };
  if (rows == 0) return {tile_of(first_row), 0};
  const std::int64_t first = tile_of(first_row);
  return {first, tile_of(first_row + rows - 1) - first + 1};
}

namespace {

/// Clusters that a device holds at a time: one CTA fills a multiprocessor.
std::int64_t most_clusters(const StripPlan& plan, const DeviceLimits& limits) {
  return std::max(1, limits.multiprocessors / plan.cluster);
}

/// Strips of a wave, at least: 1 KiB of a row, a DRAM page.
std::int64_t narrowest_wave(const StripPlan& plan) {
  return std::min<std::int64_t>(plan.strips, 1024 / plan.row_bytes());
}

}  // namespace

std::int64_t most_splits(const StripPlan& plan, const DeviceLimits& limits) {
  return std::max<std::int64_t>(1, most_clusters(plan, limits) / narrowest_wave(plan));
}

StripGrid make_strip_grid(const StripPlan& plan, std::int64_t tiles, const DeviceLimits& limits) {
  const std::int64_t clusters = most_clusters(plan, limits);
  const std::int64_t narrowest = narrowest_wave(plan);
  StripGrid best;
  double best_time = 1e300;
  for (std::int64_t waves = 1; waves <= plan.strips; ++waves) {
    const std::int64_t per_wave = divide_up(plan.strips, waves);
    if (waves > 1 && per_wave < narrowest) break;
    const std::int64_t splits = std::min(clusters / per_wave, tiles);
    if (splits == 0) continue;
    // Tiles that the busiest cluster works on; a wave costs about one tile more, to start and to end.
    const double time = static_cast<double>(waves) * (static_cast<double>(divide_up(tiles, splits)) + 1);
    if (time >= best_time) continue;
    best_time = time;
    best = {static_cast<int>(waves), static_cast<int>(per_wave), static_cast<int>(splits)};
  }
  return best;
}

std::int64_t partial_floats(const StripPlan& plan, std::int64_t splits) {
  return splits * plan.strips * plan.cluster * plan.slots() * plan.width;
}

std::int64_t device_pitch(std::int64_t n, ElementType type) {
  const std::int64_t line = 128 / element_size(type);
  return n <= line / 4 ? line / 4 : n <= line / 2 ? line / 2 : round_up(n, line);
}

}  // namespace tallsketch::cuda
