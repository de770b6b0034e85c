#include "src/cuda_direct_qr.h"

#include <algorithm>
#include <cmath>

#include "kernels/sketch_cuda.h"
#include "src/error.h"
#include "src/host_timing.h"
#include "src/upper_triangle.h"

namespace tallsketch {

namespace {

/// [A | b] in FP64, column-major, by way of row-major chunks.
DeviceBuffer<double> columns_of(const SlabView& a, const SlabView& b, cublasHandle_t blas, const CudaStream& stream) {
  constexpr std::int64_t kChunkRows = 65536;
  const std::int64_t m = a.rows, cols = a.cols + b.cols;
  DeviceBuffer<double> columns(m * cols), chunk(std::min(kChunkRows, m) * cols);
  constexpr double kOne = 1, kZero = 0;
  for (std::int64_t done = 0; done < m; done += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, m - done);
    check(cuda::convert_to_double(rows_of(a, done, rows), {}, chunk.data(), a.cols, cols, stream.get()));
    check(cuda::convert_to_double(rows_of(b, done, rows), {}, chunk.data() + a.cols, b.cols, cols, stream.get()));
    const int height = static_cast<int>(rows), width = checked_int(cols, "n + r"), leading = checked_int(m, "m");
    check(cublasDgeam(blas, CUBLAS_OP_T, CUBLAS_OP_N, height, width, &kOne, chunk.data(), width, &kZero,
                      columns.data() + done, leading, columns.data() + done, leading));
  }
  stream.synchronize();
  return columns;
}

}  // namespace

std::vector<double> direct_qr_on_device(const SlabView& a, const SlabView& b, cublasHandle_t blas,
                                        const CudaStream& stream, double& seconds) {
  const std::int64_t m = a.rows, n = a.cols, r = b.cols, cols = n + r;
  const DeviceBuffer<double> q = columns_of(a, b, blas, stream), tau(cols);
  cusolverDnHandle_t raw = nullptr;
  check(cusolverDnCreate(&raw));
  const LibraryHandle<cusolverDnHandle_t> solver(raw);
  check(cusolverDnSetStream(solver.get(), stream.get()));
  cusolverDnParams_t raw_params = nullptr;
  check(cusolverDnCreateParams(&raw_params));
  const LibraryHandle<cusolverDnParams_t> params(raw_params);
  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXgeqrf_bufferSize(solver.get(), params.get(), m, cols, CUDA_R_64F, q.data(), m, CUDA_R_64F,
                                    tau.data(), CUDA_R_64F, &device_bytes, &host_bytes));
  const DeviceBuffer<std::byte> work(static_cast<std::int64_t>(device_bytes));
  std::vector<std::byte> host_work(host_bytes);
  const DeviceBuffer<int> info(1);
  std::vector<double> upper(static_cast<std::size_t>(cols * cols), 0.0), x(static_cast<std::size_t>(n * r));
  seconds = seconds_of([&] {
    check(cusolverDnXgeqrf(solver.get(), params.get(), m, cols, CUDA_R_64F, q.data(), m, CUDA_R_64F, tau.data(),
                           CUDA_R_64F, work.data(), device_bytes, host_work.data(), host_bytes, info.data()));
    check(cudaMemcpy2DAsync(upper.data(), static_cast<std::size_t>(cols) * 8, q.data(), static_cast<std::size_t>(m) * 8,
                            static_cast<std::size_t>(std::min(cols, m)) * 8, static_cast<std::size_t>(cols),
                            cudaMemcpyDeviceToHost, stream.get()));
    stream.synchronize();
    const UpperTriangle triangle(n, upper.data(), cols);
    require(invertible(triangle), ErrorKind::kRankDeficient, "QR of all of A has a zero on the diagonal of R");
    for (std::int64_t k = 0; k < r; ++k) {
      const auto column = upper.begin() + (n + k) * cols;
      std::vector<double> solution(column, column + n);
      triangle.solve(solution);
      for (std::int64_t i = 0; i < n; ++i) {
        x[static_cast<std::size_t>(i * r + k)] = solution[static_cast<std::size_t>(i)];
      }
    }
  });
  return x;
}

}  // namespace tallsketch
