// CUDA launcher for triangles in FP64. Called by src/cuda_triangle.cpp. The work goes on the stream given; nothing is
// allocated; the launch status returns.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

namespace tallsketch::cuda {

/// Takes the upper triangle out of a factorisation, and prepares its inversion.
/// in        in (n, n) column-major device, FP32 or FP64, pitch elements from column to column; below the diagonal anything
/// r         out (n, n) column-major FP64: the triangle, zeros below it
/// identity  out (n, n) column-major FP64
/// figures   out (2, n) FP64: the diagonal, then the columns' norms; a norm is summed over a block's threads, then pairwise
[[nodiscard]] cudaError_t take_triangle(const float* in, std::int64_t pitch, std::int64_t n, double* r,
                                        double* identity, double* figures, cudaStream_t stream);
[[nodiscard]] cudaError_t take_triangle(const double* in, std::int64_t pitch, std::int64_t n, double* r,
                                        double* identity, double* figures, cudaStream_t stream);

/// norms[k] = the Euclidean norm of vectors[k], k = 0, 1, without care for overflow of squares. (cuBLAS takes 25 us.)
/// vectors  in (2, n) row-major device; norms  out (2) device
[[nodiscard]] cudaError_t two_norms(const double* vectors, std::int64_t n, double* norms, cudaStream_t stream);

}  // namespace tallsketch::cuda
