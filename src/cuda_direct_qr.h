// The GPU twin of direct_qr: least squares by Householder QR of all rows in FP64, the rival that benchmarks set beside
// sketches. Called by cuda_backend.
#pragma once

#include <vector>

#include "src/cuda_handles.h"
#include "src/cuda_rows.h"

namespace tallsketch {

/// x of min ||A x - b|| from the QR of a copy of [A | b] by cuSOLVER, (n, r) row-major. No judgement of the rank.
/// rows     in, device; at least n
/// seconds  out: QR and triangular solve, without the copy
/// Errors   kMemory: it takes 8 (n + r) bytes a row, and what cuSOLVER asks for; kRankDeficient where x is not finite
std::vector<double> direct_qr_on_device(const RowsOnDevice& rows, cublasHandle_t blas, const CudaStream& stream,
                                        double& seconds);

}  // namespace tallsketch
