// The GPU twin of qr_of_sketch: Householder QR of the sketch by cuSOLVER, in the sketch's own precision. Called by cuda_backend on rank 0.
#pragma once

#include "kernels/views.h"
#include "src/cuda_handles.h"
#include "src/triangular_factor.h"

namespace tallsketch {

/// Largest magnitude of every column of a device matrix; NaN is passed over. Waits for the stream. T: float or double.
template <class T>
std::vector<double> column_maxima_on_device(const SketchView<T>& sketch, const CudaStream& stream);

/// QR of scale * sketch * 2^exponents, column by column, in FP32 or FP64 as T is float or double; R comes back to the
/// host.
/// sketch  in (d, n + r) row-major device, unscaled, finite; d > n
/// Errors  kMemory when cuSOLVER asks for an absurd or unavailable workspace
template <class T>
TriangularFactor qr_of_sketch_on_device(const SketchView<T>& sketch, std::int64_t n, std::int64_t r, double scale,
                                        const CudaStream& stream);

}  // namespace tallsketch
