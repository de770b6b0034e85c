// The rival of every sketch: least squares by Householder QR of all of A in FP64, by LAPACK. For benchmarks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/views.h"
#include "src/problem_shape.h"

namespace tallsketch {

/// x, (n, r) row-major.
/// a, b     in host memory, rows as stored; a in FP32 or FP64
/// seconds  out: LAPACKE_dgels alone, without the column-major FP64 copy that it works on
/// Errors   kMemory; kUsage for 16-bit A; kRankDeficient where R has a zero on its diagonal
std::vector<double> direct_qr(const SlabView& a, const SlabView& b, const ProblemShape& shape, double& seconds);

}  // namespace tallsketch
