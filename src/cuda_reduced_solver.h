// The GPU twin of sketch_factor: the triangle of the reduced problem by cuSOLVER, from the sketch by QR or by Cholesky of
// its FP64 Gram matrix, or from the Gram matrix of A. Held by cuda_backend; used on rank 0 only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/check_rows.h"
#include "kernels/views.h"
#include "src/cuda_handles.h"
#include "src/cuda_sketch_statistics.h"
#include "src/cuda_triangle.h"
#include "src/sketch_factor.h"
#include "src/triangular_factor.h"

namespace tallsketch {

/// Its handles and memory are kept from one factorisation to the next: making them takes longer than using them.
class CudaReducedSolver {
 public:
  explicit CudaReducedSolver(const CudaStream& stream);

  cublasHandle_t blas() const { return blas_.get(); }

  /// QR of scale * sketch * 2^exponents, column by column, in FP32 or FP64 as T is float or double; R11 stays on
  /// the device (DeviceTriangle).
  /// sketch  in (d, n + r) row-major device, unscaled, finite; d > n
  /// unused  rows of it that count as zero
  /// Errors  kMemory when cuSOLVER asks for an absurd or unavailable workspace
  template <class T>
  TriangularFactor qr_of_sketch(const SketchView<T>& sketch, std::int64_t n, std::int64_t r, double scale,
                                const CheckRows& unused = {});

  /// cholesky_of_gram of the sketch's FP64 Gram matrix, made here without its unused rows.
  /// Cost  2 d (n + r)^2 FP64 operations, 8 (d + n + r) (n + r) bytes of memory
  template <class T>
  std::optional<TriangularFactor> cholesky_of_sketch(const SketchView<T>& sketch, std::int64_t n, std::int64_t r,
                                                     const CheckRows& unused, const GramOrigin& origin);

  /// As sketch_factor's.
  /// gram  in (n + r, n + r) column-major device FP64: the upper triangle of [A | b]^T [A | b], finite
  std::optional<TriangularFactor> cholesky_of_gram(const double* gram, std::int64_t n, std::int64_t r,
                                                   const GramOrigin& origin);

  /// Square roots of the diagonal.
  /// gram  in (cols, cols) device FP64
  std::vector<double> column_norms(const double* gram, std::int64_t cols);

  /// Lets cuBLAS load what a triangle asks of it: on the memory of the last one.
  void warm_up_triangle();

  /// Device bytes that are held, but for what the libraries hold themselves.
  std::int64_t held_bytes() const {
    const std::int64_t triangle = triangle_ ? 16 * triangle_->n * triangle_->n : 0;
    return matrix_.count() + gram_.count() + small_.count() + work_.count() + triangle;
  }

 private:
  std::vector<double> diagonal_of(const double* gram, std::int64_t cols, std::int64_t pitch);
  std::optional<TriangularFactor> factor_scaled(const double* gram, std::int64_t pitch, double* triangle,
                                                std::int64_t triangle_pitch, std::int64_t n, std::int64_t r,
                                                const GramOrigin& origin);
  template <class T>
  int fetch_factor(T* matrix, std::int64_t pitch, const int* info, TriangularFactor& factor);
  double* factor_lower(double* triangle, std::int64_t pitch, std::int64_t n, std::int64_t r, int* info);

  const CudaStream& stream_;
  LibraryHandle<cublasHandle_t> blas_;
  LibraryHandle<cusolverDnHandle_t> solver_;
  LibraryHandle<cusolverDnParams_t> params_;
  SketchStatistics statistics_;
  DeviceBuffer<std::byte> matrix_;  // the sketch as it is factored, or in FP64
  DeviceBuffer<std::byte> gram_;    // a Gram matrix and then its factor
  DeviceBuffer<std::byte> small_;   // a few numbers a column
  DeviceBuffer<std::byte> work_;    // cuSOLVER's
  std::vector<std::byte> host_work_;
  PinnedBuffer numbers_, right_, status_;
  std::shared_ptr<TriangleMemory> triangle_;  // of the last factor; the next one's where nobody has that any more
};

/// Largest magnitude of every column of a device matrix; NaN is passed over. Waits for the stream. T: float or double.
template <class T>
std::vector<double> column_maxima_on_device(const SketchView<T>& sketch, const CudaStream& stream) {
  return SketchStatistics().look(sketch, stream).largest;
}

}  // namespace tallsketch
