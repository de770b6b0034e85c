// The strip engine: SparseStack and BlockPerm at about the speed of reading A once (permuted hash), SparseStack also at
// that of reading it twice (independent hash), without atomics, in a fixed order of summation. Needs compute
// capability 9.0. Called by src/cuda_strip.cpp where make_strip_plan says `served`.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sketch_spec.h"
#include "kernels/strip_plan.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

/// Whether the current device can run the engine as it was compiled: *available = compute capability 9.x and code for
/// it.
[[nodiscard]] cudaError_t strip_engine_available(bool* available);

/// Entry tables of tiles [tiles.first, tiles.first + tiles.count): for every tile, CTA, group and slot the rows that
/// are added to it. An entry is (row in the tile) * 2 + sign; an entry without a row points at the row of zeros behind
/// the tile.
/// spec, plan   of a launch: launch_share(S), make_strip_plan(launch_share(S))
/// first_block  of S, which the launch takes from there on; other than 0 only where launch_share leaves some out
/// table        out (tiles.count, plan.table_bytes_per_tile()) device, aligned to 16 bytes
[[nodiscard]] cudaError_t fill_strip_table(const SketchSpec& spec, const StripPlan& plan, TileRange tiles,
                                           std::int32_t first_block, void* table, cudaStream_t stream);

/// Adds S*slab to sketch, the factor 1/sqrt(zeta) left out.
/// slab      in (rows, n) row-major device, of the plan's type, start and pitch aligned to 16 bytes (device_pitch is
///           fast); rows < 2^30. Columns [n, pitch) may hold anything in FP32, anything finite in FP16 and BF16: there
///           a number that is not finite makes other sums of its strip NaN too, where strips have less than 64 columns
/// table     in, of tiles = tiles_of_rows(plan, spec, slab.first_row, slab.rows)
/// partials  scratch, partial_floats(plan, grid.splits) floats
/// sketch    in/out (d, n) row-major device FP32
/// Order     of each element: a slot's entries tile by tile, then parts, then splits; fixed by plan and grid
/// Cost      one read of the slab; zeta (more where slots are padded) shared-memory reads and FMAs an element
[[nodiscard]] cudaError_t strip_sketch(const SketchSpec& spec, const StripPlan& plan, const SlabView& slab,
                                       const void* table, TileRange tiles, const StripGrid& grid, float* partials,
                                       const SketchView<float>& sketch, cudaStream_t stream);

/// The same for the few columns of b, from the same table, one or four columns at a time (strip_narrow.cu).
/// Order     of each element: inside a run of tiles by tile (independent hash: of up to four tiles first what the slots
///           hold, then the tails), then runs k mod 16, by part in each, then those
/// slab      in (rows, r) row-major device FP32, any pitch
/// partials  scratch, narrow_partial_floats(plan, r) floats
[[nodiscard]] cudaError_t strip_sketch_narrow(const SketchSpec& spec, const StripPlan& plan, const SlabView& slab,
                                              const void* table, TileRange tiles, float* partials,
                                              const SketchView<float>& sketch, cudaStream_t stream);
std::int64_t narrow_partial_floats(const StripPlan& plan, std::int64_t r);

}  // namespace tallsketch::cuda
