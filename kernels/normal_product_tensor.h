// The refinement pass by FP64 tensor cores, for several right-hand sides: where make_normal_product_plan says `tensor`.
// Called by normal_product.cu.
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
/// Order     of a residual: for each warp two halves of its columns, eight columns at a time; from b on the warps'
///           sums, eight at a time; of the sums over rows: a team's rows, eight at a time, then the teams of a CTA.
///           Within eight as the tensor core does it
/// Cost      one read of A; for every element 16 FP64 FMAs by tensor cores, half of them for nothing, two conversions
[[nodiscard]] cudaError_t launch_tensor_normal_product(const NormalProductPlan& plan, const SlabView& a,
                                                       const RightHandSides& b, const double* x, std::int64_t x_pitch,
                                                       double* partials, unsigned ctas, cudaStream_t stream);

}  // namespace tallsketch::cuda
