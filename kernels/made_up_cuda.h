// CUDA launchers for made-up rows: normal numbers by global row, and right-hand sides. Called by src/cuda_made_up.cpp.
// All work goes on the stream given; nothing is allocated; the launch status returns.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/views.h"

namespace tallsketch::cuda {

/// Independent N(0, 1) numbers, each a function of seed, global row and column; FP32 numbers in either type.
/// out  out (rows, cols) row-major device
[[nodiscard]] cudaError_t fill_normal_rows(std::uint64_t seed, std::int64_t first_row, std::int64_t rows,
                                           std::int64_t cols, float* out, cudaStream_t stream);
[[nodiscard]] cudaError_t fill_normal_rows(std::uint64_t seed, std::int64_t first_row, std::int64_t rows,
                                           std::int64_t cols, double* out, cudaStream_t stream);

/// b(i, k) = sum of row i of a + noise * e(i, k), e standard normal, a function of seed, global row and k.
/// a  in (rows, n) row-major device FP32 or FP64
/// b  out (rows, r) row-major device FP64
[[nodiscard]] cudaError_t fill_right_hand_sides(std::uint64_t seed, const SlabView& a, double noise, std::int64_t r,
                                                double* b, cudaStream_t stream);

}  // namespace tallsketch::cuda
