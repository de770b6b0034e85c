// The refinement pass on the GPU: from one read of A the residual b - A x, its squares, and A^T of it, in FP64, without
// atomics, in a fixed order of summation. The CUDA twin of normal_product_host.h. Called by src/cuda_normal_product.cpp.
#pragma once

#include <cuda_runtime.h>

#include "kernels/normal_product_plan.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

/// Adds A^T (b - A x) and the squares of b - A x of these rows.
/// plan              of a.cols, a.pitch, b.cols, a.type and the device
/// a                 in (rows, n) row-major device FP32, FP64, FP16 or BF16; columns [n, pitch) may hold anything, but
///                   are memory of the caller's, in the last row too. The fused kernel wants a start at 16 bytes
/// b                 in (rows, r) row-major device FP64 or FP32, any pitch; data may be null: b = 0
/// x                 in (n, r) row-major device FP64, finite
/// scratch           plan.scratch_doubles() doubles on the device
/// gradient          in/out (n, r) row-major device FP64; caller zeroes it once
/// residual_squares  in/out (r) device FP64; caller zeroes it once
/// Limits  rows such that A fits a device; entries of a are widened exactly, products and sums are FP64
/// Order   of a residual: a lane's columns, the lanes of a warp pairwise, the warps of the row; of the sums over rows: a
///         row set's rows, the row sets of a CTA, the CTAs. Fixed by plan and rows; equal bits from run to run
///         Of plan.tensor: normal_product_tensor.h
/// Cost    one read of a and b for every plan.rhs right-hand sides; 2 rhs FP64 FMAs and one conversion an element. Of
///         plan.tensor: 16 FMAs by tensor cores, whatever r, and two conversions
[[nodiscard]] cudaError_t normal_product(const NormalProductPlan& plan, const SlabView& a, const SlabView& b,
                                         const double* x, double* scratch, double* gradient, double* residual_squares,
                                         cudaStream_t stream);

}  // namespace tallsketch::cuda
