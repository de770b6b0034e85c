#include "src/plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

namespace {

/// A chunk is about this large: big enough to hide the latency of a read, small enough to stay out of the way.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

}  // namespace

const char* to_word(Residency residency) {
  switch (residency) {
    case Residency::kDevice: return "device";
    case Residency::kHost: return "host";
    case Residency::kFile: return "file";
  }
  return "unknown";
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
void size_up(const PlanLimits& limits, Plan& plan) {
  const bool kept = plan.residency != Residency::kFile;
  plan.chunk_bytes = plan.chunk_rows * (kept ? limits.kept_chunk_row_bytes : limits.chunk_row_bytes);
  plan.slab_bytes = kept ? plan.rank_rows.front().size() * limits.kept_row_bytes : 0;
  plan.scratch_bytes = limits.scratch_bytes(plan.chunk_rows);
}

}  // namespace

Plan make_plan(const ProblemShape& shape, const SketchSpec& spec, int ranks, const PlanLimits& limits,
               Compression compression) {
  Plan plan;
  plan.rank_rows = limits.rank_rows.empty() ? split_rows(shape.m, spec.batch_rows, ranks) : limits.rank_rows;
  const std::int64_t most_rows = plan.rank_rows.front().size();
  const std::int64_t cols = shape.n + shape.r;
  plan.sketch_bytes =
      compression == Compression::kGram ? cols * cols * 8 : spec.d * cols * sketch_element_size(spec.precision);
  plan.factor_bytes =
      2 * plan.sketch_bytes + 3 * cols * cols * 8;  // FP64 or column-major copy, work; G, R, its inverse

  const auto fits = [&] { return limits.memory_bytes <= 0 || plan.total_bytes() <= limits.memory_bytes; };
  const std::int64_t wanted = limits.chunk_rows > 0 ? limits.chunk_rows : default_chunk_rows(shape, spec);
  plan.chunk_rows = std::max<std::int64_t>(1, std::min(wanted, most_rows));
  plan.residency = limits.kept_row_bytes > 0 ? limits.kept_residency : Residency::kFile;
  size_up(limits, plan);
  if (!fits()) plan.residency = Residency::kFile;
  size_up(limits, plan);
  // Halved in fixed steps, so that a little more or less free memory rarely changes the order of summation.
  while (!fits() && limits.chunk_rows == 0 && plan.chunk_rows > spec.batch_rows) {
    plan.chunk_rows = std::max(spec.batch_rows, plan.chunk_rows / 2 / spec.batch_rows * spec.batch_rows);
    size_up(limits, plan);
  }
  require(fits(), ErrorKind::kMemory,
          fmt::format("this needs {} on a rank (sketch of {} x {} and its factorisation {}, scratch {}, chunks of {} "
                      "rows {}), but {} may be used; use a smaller --oversample, fewer --chunk-rows or more --memory",
                      bytes_text(plan.total_bytes()), compression == Compression::kGram ? cols : spec.d, cols,
                      bytes_text(plan.sketch_bytes + plan.factor_bytes), bytes_text(plan.scratch_bytes),
                      plan.chunk_rows, bytes_text(plan.chunk_bytes), bytes_text(limits.memory_bytes)));
  return plan;
}

std::string describe(const Plan& plan) {
  std::int64_t busy = 0;
  for (const RowRange& range : plan.rank_rows) busy += range.empty() ? 0 : 1;
  const auto ranks = static_cast<std::int64_t>(plan.rank_rows.size());
  return fmt::format("{} MPI rank{}{}, up to {} rows each, chunks of {} rows, A {}, {} pass; a rank needs {}", ranks,
                     plural(ranks), busy == ranks ? std::string() : fmt::format(" ({} with rows)", busy),
                     plan.rank_rows.front().size(), plan.chunk_rows,
                     plan.residency == Residency::kDevice ? "kept on the device"
                     : plan.residency == Residency::kHost ? "kept in memory"
                                                          : "read from the file chunk by chunk",
                     plan.passes, bytes_text(plan.total_bytes()));
}

}  // namespace tallsketch
