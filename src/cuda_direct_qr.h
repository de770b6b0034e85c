// The GPU twin of direct_qr: least squares by Householder QR of all of [A | b] in FP64, by cuSOLVER. For benchmarks.
#pragma once

#include <vector>

#include "kernels/views.h"
#include "src/cuda_handles.h"

namespace tallsketch {

/// x, (n, r) row-major.
/// a, b     (rows, n), (rows, r) row-major on the device, any pitch; a of any type, b FP64
/// seconds  out: QR and triangular solve, without the column-major FP64 copy that they work on
/// Errors   kMemory; kRankDeficient where R has a zero on its diagonal
std::vector<double> direct_qr_on_device(const SlabView& a, const SlabView& b, cublasHandle_t blas,
                                        const CudaStream& stream, double& seconds);

}  // namespace tallsketch
