// CUDA launchers around Gram matrices in FP64: the products of b's columns, and what the Cholesky factorisation needs
// before and after cuBLAS and cuSOLVER. Called by src/cuda_gram.cpp and src/cuda_reduced_solver.cpp.
// All work goes on the stream given; nothing is allocated; the launch status returns.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/views.h"

namespace tallsketch::cuda {

/// Columns that column_products takes at most: it is for the few columns of b, whose products cuBLAS is slow at.
inline constexpr std::int64_t kMostProductColumns = 16;

/// Doubles of scratch memory that column_products needs.
std::int64_t column_product_doubles(std::int64_t cols);

/// products(i, j) += column i times column j, both triangles.
/// in        in (rows, cols) row-major device FP64, cols <= kMostProductColumns
/// scratch   column_product_doubles(cols) doubles
/// products  in/out (cols, cols) device FP64; caller zeroes it once
/// Order     a thread's rows, the threads of a block pairwise, blocks; fixed by rows
[[nodiscard]] cudaError_t column_products(const SlabView& in, double* scratch, double* products, cudaStream_t stream);

/// The parts of [A | b]^T [A | b], all on the device.
struct GramParts {
  const double* of_a = nullptr;  // (n, n) column-major, upper triangle, of_a_pitch elements from column to column
  std::int64_t of_a_pitch = 0;
  const double* of_ab = nullptr;  // (n, r) row-major: A^T b
  const double* of_b = nullptr;   // (r, r)
};

/// gram  out (n + r, n + r) column-major device FP64: the upper triangle, zeros below it
[[nodiscard]] cudaError_t assemble_gram(const GramParts& parts, std::int64_t n, std::int64_t r, double* gram,
                                        cudaStream_t stream);

/// diagonal[j] = gram(j, j).
/// gram  in (cols, cols) device FP64, pitch elements from column to column
[[nodiscard]] cudaError_t gram_diagonal(const double* gram, std::int64_t cols, std::int64_t pitch, double* diagonal,
                                        cudaStream_t stream);

/// out(j, i) = factor * gram(i, j) * 2^(exponent[i] + exponent[j]) + (i == j ? added[j] : 0) for i <= j < cols: from the
/// upper triangle to the lower one, which cuSOLVER factors in 0.6 of the time (H200, n = 256 ... 1024).
/// gram, out  (cols, cols) column-major device FP64; may be the same with the same pitch
/// exponent   in (cols) device
/// added      in (cols) device FP64
[[nodiscard]] cudaError_t scale_gram(const double* gram, std::int64_t cols, std::int64_t pitch, double factor,
                                     const int* exponent, const double* added, double* out, std::int64_t out_pitch,
                                     cudaStream_t stream);

}  // namespace tallsketch::cuda
