// Entry tables of the strip engine for the independent hash and for BlockPerm. Called by fill_strip_table
// (entry_table.cu) alone.
#pragma once

#include <cuda_runtime.h>

#include "kernels/sketch_spec.h"
#include "kernels/strip_plan.h"

namespace tallsketch::cuda {

/// As fill_strip_table, for plans with tails. tiles.count > 0.
/// Errors: a tail beyond plan.tail_capacity stops the kernel (twelve standard deviations)
[[nodiscard]] cudaError_t fill_tail_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, void* table,
                                          cudaStream_t stream);

/// As fill_strip_table, for BlockPerm; the layout in shared memory: block_table.h. tiles.count > 0.
[[nodiscard]] cudaError_t fill_block_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles, void* table,
                                           cudaStream_t stream);

}  // namespace tallsketch::cuda
