// The GPU twin of qr_of_sketch: FP32 Householder QR of the sketch by cuSOLVER. Called by cuda_backend on rank 0.
#pragma once

#include "kernels/views.h"
#include "src/cuda_handles.h"
#include "src/triangular_factor.h"

namespace tallsketch {

/// Largest magnitude of every column of a device matrix; NaN is passed over. Waits for the stream.
std::vector<float> column_maxima_on_device(const SketchView<float>& sketch, const CudaStream& stream);

/// QR of scale * sketch * 2^exponents, column by column; R comes back to the host.
/// sketch  in (d, n + r) row-major device FP32, unscaled, finite; d > n
/// Errors  kMemory when cuSOLVER asks for an absurd or unavailable workspace
TriangularFactor qr_of_sketch_on_device(const SketchView<float>& sketch, std::int64_t n, std::int64_t r, double scale,
                                        const CudaStream& stream);

}  // namespace tallsketch
