// The refinement pass by FP64 tensor cores: for several right-hand sides, and for types whose elements come faster than
// the fused kernel of normal_product.cu takes them. Called by normal_product.cu.
#pragma once

#include <cuda_runtime.h>

#include "kernels/normal_product_plan.h"
#include "kernels/right_hand_sides.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

/// Partial results of A^T (b - A x) and of the squares of b - A x, one a CTA, in FP64.
/// plan      plan.tensor, of a.cols, a.pitch, a.type
/// a         as for normal_product; its start at 16 bytes
/// b         its columns; at most plan.rhs = 4
/// x         (a.cols, x_pitch) row-major device FP64: the first column of this launch
/// partials  out (ctas, a.cols + 1, 4) device FP64; row a.cols holds the squares
/// Order     of a residual: a warp's columns, four lanes' sums by the tensor core, two halves of a warp's columns, the
///           warps of the row pairwise; of the sums over rows: a team's rows, the teams of a CTA
[[nodiscard]] cudaError_t launch_tensor_normal_product(const NormalProductPlan& plan, const SlabView& a,
                                                       const RightHandSides& b, const double* x, std::int64_t x_pitch,
                                                       double* partials, unsigned ctas, cudaStream_t stream);

}  // namespace tallsketch::cuda
