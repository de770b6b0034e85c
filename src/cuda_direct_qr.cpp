#include "src/cuda_direct_qr.h"

#include <algorithm>
#include <cmath>

#include "kernels/sketch_cuda.h"
#include "src/error.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{256} << 20;  // of FP64 rows that are transposed at a time
constexpr double kOne = 1, kZero = 0;

/// to (rows, cols) column-major FP64, `leading` rows from column to column.
void copy_transposed(const SlabView& from, double* to, std::int64_t leading, cublasHandle_t blas,
                     const CudaStream& stream) {
  const std::int64_t most =
      std::clamp<std::int64_t>(kChunkBytes / (from.cols * 8), 1, std::max<std::int64_t>(1, from.rows));
  const DeviceBuffer<double> wide(most * from.cols);
  const int cols = checked_int(from.cols, "n"), pitch = checked_int(leading, "rows");
  for (std::int64_t done = 0; done < from.rows; done += most) {
    const SlabView part = rows_of(from, done, std::min(most, from.rows - done));
    check(cuda::convert_to_double(part, {}, wide.data(), from.cols, from.cols, stream.get()));
    check(cublasDgeam(blas, CUBLAS_OP_T, CUBLAS_OP_T, checked_int(part.rows, "rows"), cols, &kOne, wide.data(), cols,
                      &kZero, wide.data(), cols, to + done, pitch));
  }
  stream.synchronize();  // the buffer ends here
}

}  // namespace

std::vector<double> direct_qr_on_device(const RowsOnDevice& rows, cublasHandle_t blas, const CudaStream& stream,
                                        double& seconds) {
  const std::int64_t m = rows.a.rows, n = rows.a.cols, r = rows.b.cols, cols = n + r;
  const DeviceBuffer<double> q(m * cols), tau(cols);
  copy_transposed(rows.a, q.data(), m, blas, stream);
  copy_transposed(rows.b, q.data() + n * m, m, blas, stream);

  cusolverDnHandle_t raw_solver = nullptr;
  check(cusolverDnCreate(&raw_solver));
  const LibraryHandle<cusolverDnHandle_t> solver(raw_solver);
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
  const DeviceBuffer<double> x(n * r);

  CudaEvent start, end;
  start.record(stream);
  // The columns of b are transformed with the others: R12 = Q^T b.
  check(cusolverDnXgeqrf(solver.get(), params.get(), m, cols, CUDA_R_64F, q.data(), m, CUDA_R_64F, tau.data(),
                         CUDA_R_64F, work.data(), device_bytes, host_work.data(), host_bytes, info.data()));
  const int leading = checked_int(m, "rows"), order = checked_int(n, "n"), rhs = checked_int(r, "r");
  check(cublasDtrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, order, rhs,
                    &kOne, q.data(), leading, q.data() + n * m, leading));
  end.record(stream);
  check(cublasDgeam(blas, CUBLAS_OP_T, CUBLAS_OP_T, rhs, order, &kOne, q.data() + n * m, leading, &kZero,
                    q.data() + n * m, leading, x.data(), rhs));
  std::vector<double> host(static_cast<std::size_t>(n * r));
  int status = 0;
  check(cudaMemcpyAsync(&status, info.data(), sizeof status, cudaMemcpyDeviceToHost, stream.get()));
  check(cudaMemcpyAsync(host.data(), x.data(), x.bytes(), cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  require(status == 0, ErrorKind::kInternal, fmt::format("cusolverDnXgeqrf returned info = {}", status));
  require(std::all_of(host.begin(), host.end(), [](double value) { return std::isfinite(value); }),
          ErrorKind::kRankDeficient, "the R of all rows has a zero on its diagonal");
  seconds = end.seconds_since(start);
  return host;
}

}  // namespace tallsketch
