// DeviceTriangle: R of the reduced problem where a GPU factored it, with its explicit inverse. Made by CudaReducedSolver.
// A triangular solve of one column is bound by latency; a product with the inverse reads 8 n^2 bytes from the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "src/cuda_handles.h"
#include "src/triangle.h"
#include "src/upper_triangle.h"

namespace tallsketch {

/// Steps of condition_estimate without a look at their figures. A step multiplies a vector by 1 / sigma_min^2, whose squares
/// must stay in range: up to 1e19 each.
inline constexpr int kConditionBatch = 4;

/// Device and pinned memory of a triangle, which outlives one where the next can use it: allocating takes longer than
/// factoring.
struct TriangleMemory {
  explicit TriangleMemory(std::int64_t n);

  std::int64_t n;
  DeviceBuffer<double> r, inverse;  // (n, n) column-major
  DeviceBuffer<double> vectors;     // (3, n), then kConditionBatch times 2
  PinnedBuffer host;                // (2, n) doubles
};

/// The inverse is made by the first solve. Accuracy: a solve by it has a forward error of the order of condition times the
/// unit roundoff, as a triangular solve has; its residual may be larger by the condition.
class DeviceTriangle final : public Triangle {
 public:
  /// matrix  in column-major device, FP32 or FP64: the upper triangle of its leading (n, n) block, pitch rows
  /// stream, blas  outlive the triangle
  template <class T>
  DeviceTriangle(const T* matrix, std::int64_t pitch, std::shared_ptr<TriangleMemory> memory, cublasHandle_t blas,
                 const CudaStream& stream);

  std::int64_t size() const override { return memory_->n; }
  Vector diagonal() const override;
  Vector column_norms() const override;
  /// Cost  a copy of n numbers there and back, 8 n^2 bytes from the device's cache
  void solve(Vector& v) const override { transform(inverse(), CUBLAS_OP_N, v); }
  void solve_transposed(Vector& v) const override { transform(inverse(), CUBLAS_OP_T, v); }
  /// The same of device columns, in place.
  /// columns  in/out (n, count) column-major device, pitch elements from column to column
  void solve_transposed(double* columns, std::int64_t pitch, std::int64_t count) const;
  void multiply(Vector& v) const override { transform(memory_->r.data(), CUBLAS_OP_N, v); }
  void multiply_transposed(Vector& v) const override { transform(memory_->r.data(), CUBLAS_OP_T, v); }
  double condition_estimate() const override;
  const UpperTriangle& on_host() const override;

 private:
  const double* inverse() const;
  double* vector(int k) const { return memory_->vectors.data() + k * size(); }
  double* host() const { return static_cast<double*>(memory_->host.data()); }
  void transform(const double* matrix, cublasOperation_t op, Vector& v) const;
  void product(const double* matrix, cublasOperation_t op, const double* in, double* out) const;

  std::shared_ptr<TriangleMemory> memory_;
  cublasHandle_t blas_;
  const CudaStream& stream_;
  Vector figures_;  // (2, n): diagonal, column norms
  mutable bool inverted_ = false;
  mutable std::optional<UpperTriangle> on_host_;
};

}  // namespace tallsketch
