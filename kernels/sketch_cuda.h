// CUDA launchers of the sketch: entries of S, scatter kernels, conversions, finishing. Twins of kernels/*_host.h.
// Called by src/cuda_backend.cpp. All work goes on the stream given; nothing is allocated; the launch status returns.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/check_rows.h"
#include "kernels/rounded_half.h"
#include "kernels/sketch_spec.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

/// Entries of S for rows [first_row, first_row + rows).
/// entries  out (rows, zeta) device: sketch row, and the sign in bit 31
/// Cost     rows * zeta * 4 bytes written; the rule is evaluated once an entry
[[nodiscard]] cudaError_t fill_entries(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows,
                                       std::uint32_t* entries, cudaStream_t stream);

/// Adds S*slab to sketch by FP32 reductions in global memory, the factor 1/sqrt(zeta) left out.
/// slab     in (rows, cols) row-major device FP32
/// entries  in (rows, zeta) device, of the same rows
/// sketch   in/out (d, cols) row-major device FP32; caller zeroes it once
/// Order    not fixed: equal up to rounding from run to run, exact where the sums are (small integers)
/// Source   paper F, listing 1
[[nodiscard]] cudaError_t scatter_fp32(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                                       const SketchView<float>& sketch, cudaStream_t stream);

/// Same for the few columns of b: a thread a row instead of a lane a column.
[[nodiscard]] cudaError_t scatter_fp32_narrow(const SketchSpec& spec, const SlabView& slab,
                                              const std::uint32_t* entries, const SketchView<float>& sketch,
                                              cudaStream_t stream);

/// Adds S*slab*diag(factor) to a sketch of 16-bit numbers, spec.precision: product in FP32, rounded as spec.rounding says,
/// packed reductions of two columns.
/// slab     in (rows, cols) row-major device FP32; pitch even, and an odd last column padded with a column of any value
/// factor   in (cols rounded up to even) device FP32; 0 for the padding column
/// sketch   in/out (d, cols) row-major device IEEE half or BF16, pitch even
/// losses   in/out (1) device: contributions that overflowed or became zero are counted there
/// Limits   sums beyond the format become infinite: the caller checks the finished sketch; cols < 2^25
/// Order    not fixed, see scatter_fp32; the contributions themselves are the same for every grid and chunk
/// Source   paper F, listing 2 and III-D; red.global.add.noftz.f16x2 and .bf16x2 (SASS REDG)
[[nodiscard]] cudaError_t scatter_half(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                                       const float* factor, const SketchView<std::uint16_t>& sketch,
                                       RoundingLosses* losses, cudaStream_t stream);

/// Adds S*slab to an FP64 sketch by reductions in global memory, the factor 1/sqrt(zeta) left out.
/// slab     in (rows, cols) row-major device FP16, BF16, FP32 or FP64; a thread a row where there are few columns
/// entries  in (rows, zeta) device, of the same rows
/// sketch   in/out (d, cols) row-major device FP64; caller zeroes it once
/// Order    not fixed, see scatter_fp32
[[nodiscard]] cudaError_t scatter_fp64(const SketchSpec& spec, const SlabView& slab, const std::uint32_t* entries,
                                       const SketchView<double>& sketch, cudaStream_t stream);

/// out(k, j) = float(in(k, j)) for FP16, BF16, FP32 or FP64 input, rounded to nearest; columns [cols, out_pitch) become 0.
/// out  out (rows, cols) row-major device FP32
[[nodiscard]] cudaError_t convert_to_float(const SlabView& in, float* out, std::int64_t out_pitch, cudaStream_t stream);

/// out(k, j) = double(in(k, j)), exactly, or 0 in the rows of `zeros`; columns [cols, width) become 0, those behind stay.
/// zeros  by global row
/// out    out (rows, width) row-major device FP64, out_pitch elements from row to row
[[nodiscard]] cudaError_t convert_to_double(const SlabView& in, const CheckRows& zeros, double* out, std::int64_t width,
                                            std::int64_t out_pitch, cudaStream_t stream);

/// Largest magnitude and sum of squares of every column, added to what is there (max and +).
/// slab            in (rows, cols) row-major device, of the type of column_max
/// column_max      in/out (cols) device FP32 or FP64; NaN is ignored (the sketch shows it)
/// column_squares  in/out (cols) device FP64
[[nodiscard]] cudaError_t column_statistics(const SlabView& slab, float* column_max, double* column_squares,
                                            cudaStream_t stream);
[[nodiscard]] cudaError_t column_statistics(const SlabView& slab, double* column_max, double* column_squares,
                                            cudaStream_t stream);

/// out(k, j) = half(in(k, j) * factor[j]), rounded to nearest once.
/// factor  in (cols) device FP64
[[nodiscard]] cudaError_t narrow_to_half(const SketchView<float>& in, const double* factor,
                                         const SketchView<std::uint16_t>& out, cudaStream_t stream);

/// out(k, j) = in(k, j) * inverse[j]: widens a sketch of 16-bit numbers and undoes its column factors.
/// type     kFloat16 or kBfloat16, of `in`
/// inverse  in (cols) device FP64: 1 / factor
[[nodiscard]] cudaError_t widen_half(ElementType type, const SketchView<std::uint16_t>& in, const double* inverse,
                                     const SketchView<float>& out, cudaStream_t stream);

/// *count += number of elements of the sketch that are NaN or infinite.
[[nodiscard]] cudaError_t count_non_finite(const SketchView<float>& sketch, unsigned long long* count,
                                           cudaStream_t stream);
[[nodiscard]] cudaError_t count_non_finite(const SketchView<double>& sketch, unsigned long long* count,
                                           cudaStream_t stream);

/// out(i, j) column-major with leading dimension d = sketch(i, j) * factor[j], 0 in unused rows; the input of the QR.
/// factor  in (cols) device FP64
[[nodiscard]] cudaError_t transpose_scaled(const SketchView<float>& sketch, const double* factor,
                                           const CheckRows& unused, float* out, cudaStream_t stream);
[[nodiscard]] cudaError_t transpose_scaled(const SketchView<double>& sketch, const double* factor,
                                           const CheckRows& unused, double* out, cudaStream_t stream);

/// out(i, k) = scale * (sketch(i, n + k) - sum over j of sketch(i, j) x(j, k)): the residual of the sketched problem.
/// sketch  in (d, n + r) row-major device FP32 or FP64
/// x       in (n, r) row-major device FP64
/// out     out (d, r) row-major device FP64
/// Order   a lane's columns, then the lanes of a warp pairwise; fixed
[[nodiscard]] cudaError_t sketch_residual(const SketchView<float>& sketch, std::int64_t n, const double* x,
                                          double scale, double* out, cudaStream_t stream);
[[nodiscard]] cudaError_t sketch_residual(const SketchView<double>& sketch, std::int64_t n, const double* x,
                                          double scale, double* out, cudaStream_t stream);

/// data[k] = a number in [-1, 1) from counter k, rounded to the type: input of benchmarks.
/// data  out (count) device, of any type
[[nodiscard]] cudaError_t fill_uniform(void* data, std::int64_t count, ElementType type, cudaStream_t stream);

/// Reads count floats once and does next to nothing with them: the floor that benchmarks divide by, whatever the bits
/// mean.
/// sink  out (1) device, written only if the sum is one certain value, so that the loads stay
[[nodiscard]] cudaError_t read_pass(const float* data, std::int64_t count, float* sink, cudaStream_t stream);

}  // namespace tallsketch::cuda
