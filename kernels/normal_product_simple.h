// The refinement pass where the fused kernel of normal_product.cu does not serve: widths beyond it, odd pitches, and
// devices without bulk copies. A warp a row for the residuals of kSimpleRows rows, then a thread a column for the
// gradient; the rows come from the caches the second time. Called by normal_product.cu.
#pragma once

#include <cuda_runtime.h>

#include "kernels/right_hand_sides.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

/// Rows that a CTA works on at a time.
inline constexpr int kSimpleRows = 8;

/// Partial results of A^T (b - A x) and of the squares of b - A x, one a CTA, in FP64.
/// b         its columns; at most `rhs`
/// x         (a.cols, x_pitch) row-major device FP64: the first column of this launch
/// rhs       columns of a partial result, at most kMostRhs; those beyond b's are zeros
/// partials  out (ctas, a.cols + 1, rhs) device FP64; row a.cols holds the squares
/// Order     of a residual: a lane's columns, the lanes of a warp pairwise; of the sums: by row
[[nodiscard]] cudaError_t launch_simple_normal_product(const SlabView& a, const RightHandSides& b, const double* x,
                                                       std::int64_t x_pitch, std::int32_t rhs, double* partials,
                                                       unsigned ctas, cudaStream_t stream);

}  // namespace tallsketch::cuda
