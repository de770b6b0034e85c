// How tail_table.cu lays out the entries of a tile in shared memory; the planner has to know its size.
#pragma once

#include <cstdint>

#include "kernels/sketch_spec.h"
#include "kernels/strip_plan.h"

namespace tallsketch::cuda {

/// Offsets in bytes. The signs, whose draws take 16 bytes, begin at 0.
struct TailTableLayout {
  std::int32_t sign_stride;  // signs (zeta, sign_stride): draws of 128 signs of one of the zeta blocks
  std::int64_t counts;       // (slots of all CTAs), at least d
  std::int64_t first;        // (d + 1)
  std::int64_t tail_first;   // (slots of all CTAs + 1)
  std::int64_t sketch_rows;  // (tile_rows, zeta), 16 bits each
  std::int64_t unsorted;     // (tile_rows * zeta), 16 bits each
  std::int64_t list;         // the same
  std::int64_t bytes;
};

/// Shared memory of the kernel besides: block borders and the scratch of its prefix sums, at most.
inline constexpr std::int64_t kTailStaticBytes = 2048;

inline TailTableLayout tail_table_layout(const SketchSpec& spec, const StripPlan& plan) {
  const std::int64_t slots = plan.cluster * plan.slots(), entry_bytes = plan.tile_rows * spec.zeta * 2;
  TailTableLayout layout{};
  layout.sign_stride = static_cast<std::int32_t>(plan.tile_rows / 128 + 2);
  layout.counts = std::int64_t{spec.zeta} * layout.sign_stride * 16;
  layout.first = layout.counts + slots * 4;
  layout.tail_first = layout.first + (spec.d + 1) * 4;
  layout.sketch_rows = layout.tail_first + (slots + 1) * 4;
  layout.unsorted = layout.sketch_rows + entry_bytes;
  layout.list = layout.unsorted + entry_bytes;
  layout.bytes = layout.list + entry_bytes;
  return layout;
}

}  // namespace tallsketch::cuda
