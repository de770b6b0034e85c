#include "src/plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/sketch_rule.h"
#include "src/error.h"

namespace tallsketch {

namespace {

/// d is rounded up so that every block has a multiple of this many buckets: the tile heights that kernels like.
constexpr std::int64_t kBucketGranule = 16;

/// A chunk is about this large: big enough to hide the latency of a read, small enough to stay out of the way.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

constexpr int kChunkBuffers = 2;  // one is filled while the other is uploaded

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

std::int64_t chunk_row_bytes(const ProblemShape& shape) {
  return kChunkBuffers * (shape.n * element_size(shape.a_type) + shape.r * element_size(ElementType::kFloat64));
}

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
    const double ratio = options.oversample == "auto" ? 2.0 : std::stod(options.oversample);
    const double rows = std::ceil(ratio * static_cast<double>(shape.n));
    require(rows <= static_cast<double>(kMaxSketchRows), ErrorKind::kUsage,
            fmt::format("--oversample {} with n = {} asks for {} sketch rows; at most {} are possible",
                        options.oversample, shape.n, rows, kMaxSketchRows));
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

Plan make_plan(const ProblemShape& shape, const SketchSpec& spec, int ranks, const PlanLimits& limits) {
  Plan plan;
  plan.rank_rows = split_rows(shape.m, spec.batch_rows, ranks);
  const std::int64_t most_rows = plan.rank_rows.front().size();
  const std::int64_t cols = shape.n + shape.r;
  plan.sketch_bytes = spec.d * cols * 4;
  plan.scratch_bytes = limits.scratch_bytes;
  plan.factor_bytes = 2 * spec.d * cols * 4 + cols * cols * 8;  // column-major copy, cuSOLVER / LAPACK work, R

  plan.chunk_rows = limits.chunk_rows;
  if (plan.chunk_rows == 0) {
    plan.chunk_rows = kChunkBytes / (shape.n * element_size(shape.a_type));
    // Whole batches where possible: a batch that is cut costs its map twice.
    if (plan.chunk_rows > spec.batch_rows) plan.chunk_rows -= plan.chunk_rows % spec.batch_rows;
    plan.chunk_rows = std::max<std::int64_t>(plan.chunk_rows, 1);
  }
  plan.chunk_rows = std::max<std::int64_t>(1, std::min(plan.chunk_rows, most_rows));

  const std::int64_t fixed = plan.sketch_bytes + plan.scratch_bytes + plan.factor_bytes;
  const std::int64_t row_bytes = chunk_row_bytes(shape);
  if (limits.memory_bytes > 0 && limits.chunk_rows == 0 && !limits.cuda) {
    const std::int64_t affordable = (limits.memory_bytes - fixed) / row_bytes;
    plan.chunk_rows = std::clamp<std::int64_t>(affordable, 1, plan.chunk_rows);
  }
  plan.chunk_bytes = plan.chunk_rows * row_bytes;
  const std::int64_t slab_bytes = most_rows * (shape.n + shape.r) * 4;
  if (limits.cuda) {
    const std::int64_t streamed = fixed + plan.chunk_rows * cols * 4 * kChunkBuffers + plan.chunk_bytes;
    const std::int64_t resident = streamed + slab_bytes;
    plan.residency = resident <= limits.memory_bytes ? Residency::kDevice : Residency::kFile;
    plan.slab_bytes = plan.residency == Residency::kDevice ? slab_bytes : 0;
  }
  const std::int64_t needed = fixed + plan.chunk_bytes + plan.slab_bytes;
  require(
      limits.memory_bytes <= 0 || needed <= limits.memory_bytes, ErrorKind::kMemory,
      fmt::format("this needs {} on a rank (sketch of {} x {} and its factorisation {}, scratch {}, chunk of {} rows "
                  "{}), but {} may be used; use a smaller --oversample, fewer --chunk-rows or more --memory",
                  bytes_text(needed), spec.d, cols, bytes_text(plan.sketch_bytes + plan.factor_bytes),
                  bytes_text(plan.scratch_bytes), plan.chunk_rows, bytes_text(plan.chunk_bytes),
                  bytes_text(limits.memory_bytes)));
  return plan;
}

std::string bytes_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, units[unit]);
}

std::string describe(const Plan& plan, const ProblemShape& shape) {
  std::int64_t busy = 0;
  for (const RowRange& range : plan.rank_rows) busy += range.empty() ? 0 : 1;
  return fmt::format("{} rank{}{}, up to {} rows each, chunks of {} rows, A {}, {} pass; a rank needs {}",
                     plan.rank_rows.size(), plan.rank_rows.size() == 1 ? "" : "s",
                     busy == static_cast<std::int64_t>(plan.rank_rows.size()) ? std::string()
                                                                              : fmt::format(" ({} with rows)", busy),
                     plan.rank_rows.front().size(), plan.chunk_rows,
                     plan.residency == Residency::kDevice ? "kept on the device" : "read from the file chunk by chunk",
                     plan.passes, bytes_text(plan.backend_bytes() + plan.chunk_bytes)) +
         (shape.m < 2 * plan.sketch_bytes / (4 * (shape.n + shape.r)) ? "; m is below 2 d: sketching saves little"
                                                                      : "");
}

}  // namespace tallsketch
