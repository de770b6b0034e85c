#include "src/plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

namespace {

/// d is rounded up so that every block has a multiple of this many buckets: the tile heights that kernels like.
constexpr std::int64_t kBucketGranule = 16;

/// A chunk is about this large: big enough to hide the latency of a read, small enough to stay out of the way.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

}  // namespace

const char* to_word(Residency residency) { return residency == Residency::kDevice ? "device" : "file"; }

SketchSpec make_sketch_spec(const ProblemShape& shape, const SketchOptions& options) {
  SketchSpec spec;
  spec.hash = options.hash;
  spec.precision = options.precision;
  spec.zeta = options.zeta;
  spec.seed = options.seed;
  if (options.sketch_rows > 0) {
    spec.d = options.sketch_rows;
    require(spec.hash != SketchHash::kPermuted || spec.d % spec.zeta == 0, ErrorKind::kUsage,
            fmt::format("--sketch-rows {} is not a multiple of zeta = {}, which --hash permuted needs; use {} or "
                        "--hash independent",
                        spec.d, spec.zeta, round_up(spec.d, spec.zeta)));
    require(spec.d >= spec.zeta, ErrorKind::kUsage,
            fmt::format("--sketch-rows {} is below zeta = {}: every block needs a row", spec.d, spec.zeta));
  } else {
    constexpr double kAutoRatio = 2.0;  // sketch-solve; `refine` will choose by its cost model
    const double ratio = options.oversample > 0 ? options.oversample : kAutoRatio;
    const double rows = std::ceil(ratio * static_cast<double>(shape.n));
    require(rows <= static_cast<double>(kMaxSketchRows), ErrorKind::kUsage,
            fmt::format("--oversample {} with n = {} asks for {} sketch rows; at most {} are possible", ratio, shape.n,
                        rows, kMaxSketchRows));
    spec.d = round_up(static_cast<std::int64_t>(rows), kBucketGranule * spec.zeta);
  }
  require(spec.d > shape.n, ErrorKind::kUsage,
          fmt::format("the sketch has d = {} rows for n = {} columns; d must exceed n (--oversample above 1, or "
                      "--sketch-rows {} and more)",
                      spec.d, shape.n, round_up(shape.n + 1, spec.zeta)));
  require(spec.d <= kMaxSketchRows, ErrorKind::kUsage,
          fmt::format("d = {} sketch rows; at most {} are possible", spec.d, kMaxSketchRows));
  spec.batch_rows = batch_rows_for(spec.d, spec.zeta);
  return spec;
}

std::vector<RowRange> split_rows(std::int64_t m, std::int64_t batch_rows, int ranks) {
  const std::int64_t batches = divide_up(m, batch_rows);
  const std::int64_t each = batches / ranks;
  const std::int64_t extra = batches % ranks;
  std::vector<RowRange> ranges;
  std::int64_t batch = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t next = batch + each + (rank < extra ? 1 : 0);
    ranges.push_back({std::min(m, batch * batch_rows), std::min(m, next * batch_rows)});
    batch = next;
  }
  return ranges;
}

namespace {

std::int64_t default_chunk_rows(const ProblemShape& shape, const SketchSpec& spec) {
  const std::int64_t rows = kChunkBytes / shape.row_bytes();
  // Whole batches where possible: a batch that is cut costs its map twice.
  return rows > spec.batch_rows ? rows - rows % spec.batch_rows : std::max<std::int64_t>(rows, 1);
}

/// Fills the byte counts that depend on residency and chunk_rows.
void size_up(const ProblemShape& shape, const PlanLimits& limits, Plan& plan) {
  const bool resident = plan.residency == Residency::kDevice;
  const std::int64_t streamed_row = limits.device_row_bytes > 0 && !resident ? limits.device_row_bytes : 0;
  plan.chunk_bytes = limits.chunk_buffers * plan.chunk_rows * (shape.row_bytes() + streamed_row);
  plan.slab_bytes = resident ? plan.rank_rows.front().size() * limits.device_row_bytes : 0;
  plan.scratch_bytes = limits.scratch_bytes(plan.chunk_rows);
}

}  // namespace

Plan make_plan(const ProblemShape& shape, const SketchSpec& spec, int ranks, const PlanLimits& limits) {
  Plan plan;
  plan.rank_rows = split_rows(shape.m, spec.batch_rows, ranks);
  const std::int64_t most_rows = plan.rank_rows.front().size();
  const std::int64_t cols = shape.n + shape.r;
  plan.sketch_bytes = spec.d * cols * 4;
  plan.factor_bytes = 2 * spec.d * cols * 4 + cols * cols * 8;  // column-major copy, cuSOLVER / LAPACK work, R

  const auto fits = [&] { return limits.memory_bytes <= 0 || plan.total_bytes() <= limits.memory_bytes; };
  const std::int64_t wanted = limits.chunk_rows > 0 ? limits.chunk_rows : default_chunk_rows(shape, spec);
  plan.chunk_rows = std::max<std::int64_t>(1, std::min(wanted, most_rows));
  plan.residency = limits.device_row_bytes > 0 ? Residency::kDevice : Residency::kFile;
  size_up(shape, limits, plan);
  if (!fits()) plan.residency = Residency::kFile;
  size_up(shape, limits, plan);
  // Halved in fixed steps, so that a little more or less free memory rarely changes the order of summation.
  while (!fits() && limits.chunk_rows == 0 && plan.chunk_rows > spec.batch_rows) {
    plan.chunk_rows = std::max(spec.batch_rows, plan.chunk_rows / 2 / spec.batch_rows * spec.batch_rows);
    size_up(shape, limits, plan);
  }
  require(fits(), ErrorKind::kMemory,
          fmt::format("this needs {} on a rank (sketch of {} x {} and its factorisation {}, scratch {}, chunks of {} "
                      "rows {}), but {} may be used; use a smaller --oversample, fewer --chunk-rows or more --memory",
                      bytes_text(plan.total_bytes()), spec.d, cols, bytes_text(plan.sketch_bytes + plan.factor_bytes),
                      bytes_text(plan.scratch_bytes), plan.chunk_rows, bytes_text(plan.chunk_bytes),
                      bytes_text(limits.memory_bytes)));
  return plan;
}

std::string describe(const Plan& plan) {
  std::int64_t busy = 0;
  for (const RowRange& range : plan.rank_rows) busy += range.empty() ? 0 : 1;
  const auto ranks = static_cast<std::int64_t>(plan.rank_rows.size());
  return fmt::format("{} MPI rank{}{}, up to {} rows each, chunks of {} rows, A {}, {} pass; a rank needs {}", ranks,
                     plural(ranks), busy == ranks ? std::string() : fmt::format(" ({} with rows)", busy),
                     plan.rank_rows.front().size(), plan.chunk_rows,
                     plan.residency == Residency::kDevice ? "kept on the device" : "read from the file chunk by chunk",
                     plan.passes, bytes_text(plan.total_bytes()));
}

}  // namespace tallsketch
