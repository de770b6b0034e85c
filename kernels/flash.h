// CUDA launchers of paper B's kernels, which read A kappa times or sample it. Baselines of the strip engine.
// Called by src/cuda_backend.cpp (--kernel flash) and the CUDA timing. All work goes on the stream given; nothing is
// allocated; the launch status returns.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/block_row.h"
#include "kernels/flash_plan.h"
#include "kernels/sketch_spec.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

/// Adds S*slab to sketch for a BlockPerm S, the factor 1/sqrt(zeta) left out: a CTA holds 32 columns of an output block
/// in shared memory, walks the rows of its kappa input blocks and adds by atomics in shared memory.
/// slab     in (rows, cols) row-major device FP32
/// entries  in (rows, zeta) device, of the same rows (fill_entries)
/// sketch   in/out (d, cols) row-major device FP32; caller zeroes it once
/// Limits   flash_shared_bytes(spec) at most what the device allows a CTA
/// Order    not fixed: equal up to rounding from run to run, exact where the sums are (small integers)
/// Cost     A is read kappa times; zeta shared atomics an element; with row slices d * cols global atomics a slice
/// Source   paper B, sections 5.1 and B.1; hashing is in `entries` instead of in the kernel
[[nodiscard]] cudaError_t flash_fp32(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                                     const SketchView<float>& sketch, cudaStream_t stream);

/// sketch = S*a for FlashBlockRow's S, scaled. The samples are drawn in the kernel.
/// a       in (m, cols) row-major device FP32: all rows of the matrix
/// sketch  out (d, cols) row-major device FP32
/// Order   fixed: block by block, sample by sample
/// Cost    kappa * d rows of A are read
/// Source  paper B, appendix C
[[nodiscard]] cudaError_t flash_block_row(const BlockRowSpec& spec, const SlabView& a, const SketchView<float>& sketch,
                                          cudaStream_t stream);

}  // namespace tallsketch::cuda
