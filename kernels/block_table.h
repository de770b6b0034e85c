// How block_table.cu lays out its shuffles in shared memory; the planner has to know their size.
#pragma once

#include <cstdint>

#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "kernels/strip_plan.h"

namespace tallsketch::cuda {

/// How one tile's shuffles and signs lie in shared memory.
struct BlockTableLayout {
  std::int64_t sign_stride;     // draws of 128 signs of one of the zeta entries
  std::int64_t element_stride;  // 16-bit elements from one place of all groups' shuffles to the next: an odd number of
                                // words, so that neighbouring places lie in different banks
  std::int64_t batch_stride;    // elements of a batch; an odd number of words too
  std::int64_t tile_bytes;
};

inline BlockTableLayout block_table_layout(const SketchSpec& spec, const StripPlan& plan) {
  BlockTableLayout layout{};
  layout.sign_stride = plan.batches_per_tile * spec.batch_rows / 128 + 2;
  layout.element_stride = 2 * (divide_up(group_count(spec), 2) | 1);
  layout.batch_stride = deal_rows(spec) * layout.element_stride + (deal_rows(spec) % 2 == 0 ? 2 : 0);
  layout.tile_bytes =
      round_up(spec.zeta * layout.sign_stride * 16 + plan.batches_per_tile * layout.batch_stride * 2, 16);
  return layout;
}

}  // namespace tallsketch::cuda
