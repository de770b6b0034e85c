// The GPU twin of HostGram: [A | b]^T [A | b] in FP64 of rows that lie on the device. Made by cuda_backend for Gram jobs;
// its product of wide columns serves cuda_reduced_solver too.
#pragma once

#include <cstdint>

#include "kernels/views.h"
#include "src/cuda_handles.h"
#include "src/cuda_normal_product.h"

namespace tallsketch {

/// out = X^T X + beta out, its upper triangle at least, by cuBLAS.
/// x    in (rows, n) row-major device FP64
/// out  in/out (n, n) column-major device FP64, out_pitch elements from column to column
void add_products(cublasHandle_t blas, const SlabView& x, double beta, double* out, std::int64_t out_pitch);

class DeviceGram {
 public:
  /// FP64 copies of rows at a time: large enough for cuBLAS, small enough to stay in reach of the cache.
  static constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

  /// Device bytes that it will hold.
  static std::int64_t bytes(std::int64_t n, std::int64_t r, ElementType type);

  /// type         of A, in device memory with a pitch of device_pitch
  /// chunk_bytes  for benchmarks
  DeviceGram(std::int64_t n, std::int64_t r, ElementType type, cublasHandle_t blas, const CudaStream& stream,
             std::int64_t chunk_bytes = kChunkBytes);

  /// Adds rows.
  /// a       (rows, n) row-major device, pitch device_pitch(n, type), zeros between the columns and the pitch
  /// b       (rows, r) row-major device FP64, dense
  /// Order   cuBLAS's for A^T A: fixed by n and the rows of each call; normal_product's for A^T b
  /// Cost    2 rows n^2 FP64 operations (half from n = 2048 on), two reads of A, and a copy in FP64 unless it is FP64
  void add(const SlabView& a, const SlabView& b);

  /// gram  out (n + r, n + r) column-major device FP64: the sum so far, upper triangle, zeros below it
  void copy_to(double* gram) const;

 private:
  void add_rows_of_a(const SlabView& a);

  std::int64_t n_, r_, pitch_, width_;
  std::int64_t chunk_rows_;
  cublasHandle_t blas_;
  const CudaStream& stream_;
  NormalProduct rhs_;           // with x = 0 it gives A^T b
  DeviceBuffer<double> wide_;   // (chunk_rows, width): rows in FP64
  DeviceBuffer<double> of_a_;   // (width, width)
  DeviceBuffer<double> zeros_;  // (n, r)
  DeviceBuffer<double> of_ab_;  // (n + 1, r): A^T b, and squares that of_b_ has too
  DeviceBuffer<double> of_b_;   // (r, r)
  DeviceBuffer<double> b_scratch_;
};

}  // namespace tallsketch
