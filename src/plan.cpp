#include "src/plan.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

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

std::int64_t default_chunk_rows(const ProblemShape& shape, const SketchSpec& spec, std::int64_t chunk_bytes) {
  const std::int64_t rows = chunk_bytes / shape.row_bytes();
  // Whole batches where possible: a batch that is cut costs its map twice.
  return rows > spec.batch_rows ? rows - rows % spec.batch_rows : std::max<std::int64_t>(rows, 1);
}

/// Fills the byte counts that depend on residency and chunk_rows.
/// copies_bytes  of the sketch, for checkpoints and sketch files
void size_up(const PlanLimits& limits, std::int64_t copies_bytes, Plan& plan) {
  const bool kept = plan.residency == limits.kept_residency;
  const bool pinned = plan.residency == Residency::kHost && !kept;
  const std::int64_t most_rows = plan.rank_rows.front().size();
  plan.chunk_bytes = plan.chunk_rows * (kept ? limits.kept_chunk_row_bytes : limits.chunk_row_bytes);
  plan.slab_bytes = kept ? most_rows * limits.kept_row_bytes : 0;
  plan.host_bytes =
      plan.chunk_rows * limits.pinned_chunk_row_bytes + (pinned ? most_rows * limits.pinned_row_bytes : 0);
  if (limits.kept_residency == Residency::kDevice) {
    plan.host_bytes += limits.source_bytes + copies_bytes;
  } else {
    plan.source_bytes = limits.source_bytes;
    plan.copies_bytes = copies_bytes;
  }
  plan.scratch_bytes = limits.scratch_bytes(plan.chunk_rows);
}

bool fits(const Plan& plan, const PlanLimits& limits) {
  return (limits.memory_bytes <= 0 || plan.total_bytes() <= limits.memory_bytes) &&
         (limits.host_memory_bytes <= 0 || plan.host_bytes <= limits.host_memory_bytes);
}

/// Where A may stay, the fastest first.
std::vector<Residency> candidates(const PlanLimits& limits) {
  const bool on_device = limits.kept_residency == Residency::kDevice;
  switch (limits.asked) {
    case ResidencyChoice::kAuto: break;
    case ResidencyChoice::kDevice:
      require(on_device, ErrorKind::kUsage,
              "--residency device is GPU memory, and this is the host backend; use --residency host");
      return {Residency::kDevice};
    case ResidencyChoice::kHost: return {Residency::kHost};
    case ResidencyChoice::kFile: return {Residency::kFile};
  }
  std::vector<Residency> places;
  if (limits.kept_row_bytes > 0) places.push_back(limits.kept_residency);
  if (limits.pinned_row_bytes > 0) places.push_back(Residency::kHost);
  places.push_back(Residency::kFile);
  return places;
}

/// Halves the chunks until all fits, in fixed steps, so that a little more or less free memory rarely changes the order of
/// summation. Rows that stay deserve chunks that are not tiny.
bool shrink_to_fit(const SketchSpec& spec, const PlanLimits& limits, std::int64_t copies_bytes, Plan& plan) {
  constexpr std::int64_t kMostShrinking = 8;
  const std::int64_t least = plan.residency == Residency::kFile
                                 ? spec.batch_rows
                                 : std::max(spec.batch_rows, plan.chunk_rows / kMostShrinking);
  size_up(limits, copies_bytes, plan);
  while (!fits(plan, limits) && limits.chunk_rows == 0 && plan.chunk_rows > least) {
    plan.chunk_rows = std::max(least, plan.chunk_rows / 2 / spec.batch_rows * spec.batch_rows);
    size_up(limits, copies_bytes, plan);
  }
  return fits(plan, limits);
}

[[noreturn]] void throw_too_large(const Plan& plan, const PlanLimits& limits, std::int64_t rows, std::int64_t cols,
                                  Compression compression) {
  const bool device = limits.memory_bytes <= 0 || plan.total_bytes() <= limits.memory_bytes;
  if (device) {
    throw Error(
        ErrorKind::kMemory,
        fmt::format("this needs {} of page-locked host memory on a rank (chunks of {} rows{}), but {} may be used, of "
                    "what is {}; use {}fewer --chunk-rows or {}",
                    bytes_text(plan.host_bytes), plan.chunk_rows,
                    plan.residency == Residency::kHost ? " and all rows of A" : "",
                    bytes_text(limits.host_memory_bytes), describe(limits.host_memory_bound),
                    plan.residency == Residency::kHost ? "--residency file, " : "", remedy(limits.host_memory_bound)));
  }
  const std::int64_t reduced_bytes = plan.sketch_bytes + plan.factor_bytes;
  std::string parts = fmt::format("{} of {} x {} and its factorisation {}, scratch {}",
                                  compression == Compression::kGram ? "Gram matrix" : "sketch", rows, cols,
                                  bytes_text(reduced_bytes), bytes_text(plan.scratch_bytes));
  if (plan.chunk_bytes > 0)
    parts += fmt::format(", chunks of {} rows {}", plan.chunk_rows, bytes_text(plan.chunk_bytes));
  if (plan.slab_bytes > 0) parts += ", rows of A " + bytes_text(plan.slab_bytes);
  if (plan.copies_bytes > 0) parts += ", copies of the sketch for its files " + bytes_text(plan.copies_bytes);
  if (plan.source_bytes > 0) parts += ", chunks of the files " + bytes_text(plan.source_bytes);
  // What no chunks and no number of ranks make smaller is not to be cured by them.
  const bool reduced_fits = reduced_bytes <= limits.memory_bytes;
  std::vector<std::string> cures;
  if (reduced_fits && plan.slab_bytes > 0) cures.insert(cures.end(), {"--residency file", "more ranks"});
  if (compression == Compression::kSketch) cures.emplace_back("a smaller --oversample");
  if (reduced_fits && plan.chunk_rows > 1 && plan.chunk_bytes > 0) cures.emplace_back("fewer --chunk-rows");
  if (!reduced_fits) cures.emplace_back("fewer columns");
  // What was asked for is the first thing to change; what the machine has, the last.
  cures.insert(limits.memory_bound == MemoryBound::kAsked ? cures.begin() : cures.end(), remedy(limits.memory_bound));
  throw Error(ErrorKind::kMemory,
              fmt::format("this needs {} on a rank ({}), but {} may be used, of what is {}; use {}{}",
                          bytes_text(plan.total_bytes()), parts, bytes_text(limits.memory_bytes),
                          describe(limits.memory_bound), fmt::join(cures, " or "),
                          reduced_fits ? "" : "; more ranks or smaller chunks do not help: rank 0 factors alone"));
}

}  // namespace

Plan make_plan(const ProblemShape& shape, const SketchSpec& spec, int ranks, const PlanLimits& limits,
               Compression compression) {
  Plan plan;
  plan.rank_rows = limits.rank_rows.empty() ? split_rows(shape.m, spec.batch_rows, ranks) : limits.rank_rows;
  const std::int64_t most_rows = plan.rank_rows.front().size();
  const std::int64_t cols = shape.n + shape.r;
  const std::int64_t sketch_rows = compression == Compression::kGram ? cols : spec.d;
  plan.sketch_bytes =
      sketch_rows * cols * (compression == Compression::kGram ? 8 : sketch_element_size(spec.precision));
  const std::int64_t copies_bytes = limits.sketch_copies * sketch_rows * cols * 8;
  plan.factor_bytes =
      2 * plan.sketch_bytes + 3 * cols * cols * 8;  // FP64 or column-major copy, work; G, R, its inverse

  const std::int64_t wanted =
      limits.chunk_rows > 0 ? limits.chunk_rows : default_chunk_rows(shape, spec, limits.chunk_bytes);
  for (const Residency residency : candidates(limits)) {
    plan.residency = residency;
    plan.chunk_rows = std::max<std::int64_t>(1, std::min(wanted, most_rows));
    if (shrink_to_fit(spec, limits, copies_bytes, plan)) return plan;
  }
  throw_too_large(plan, limits, sketch_rows, cols, compression);
}

std::string describe(const Plan& plan) {
  std::int64_t busy = 0;
  for (const RowRange& range : plan.rank_rows) busy += range.empty() ? 0 : 1;
  const auto ranks = static_cast<std::int64_t>(plan.rank_rows.size());
  const char* const place = plan.residency == Residency::kFile     ? "read from the file chunk by chunk"
                            : plan.residency == Residency::kDevice ? "kept on the device"
                            : plan.host_bytes > 0                  ? "kept in page-locked host memory"
                                                                   : "kept in memory";
  std::string text =
      fmt::format("{} MPI rank{}{}, up to {} rows each, chunks of {} rows, A {}, {} pass{}", ranks, plural(ranks),
                  busy == ranks ? std::string() : fmt::format(" ({} with rows)", busy), plan.rank_rows.front().size(),
                  plan.chunk_rows, place, plan.passes > 1 ? fmt::format("about {}", plan.passes) : "1",
                  plan.passes > 1 ? "es" : "");
  text += fmt::format("; a rank needs {}", bytes_text(plan.total_bytes()));
  if (plan.host_bytes > 0) text += fmt::format(", and {} of host memory", bytes_text(plan.host_bytes));
  if (plan.seconds > 0) text += fmt::format("; predicted: {:.2g} s", plan.seconds);
  return text;
}

}  // namespace tallsketch
