#include "src/cuda_made_up.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>
#include <lapacke.h>

#include "kernels/gram_cuda.h"
#include "kernels/made_up_cuda.h"
#include "src/error.h"
#include "src/normals.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{256} << 20;  // of normal numbers at a time

cublasStatus_t gemm(cublasHandle_t blas, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
                    float* c, int ldc) {
  constexpr float kOne = 1, kZero = 0;
  return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &kOne, a, lda, b, ldb, &kZero, c, ldc);
}
cublasStatus_t gemm(cublasHandle_t blas, int m, int n, int k, const double* a, int lda, const double* b, int ldb,
                    double* c, int ldc) {
  constexpr double kOne = 1, kZero = 0;
  return cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &kOne, a, lda, b, ldb, &kZero, c, ldc);
}

/// V diag(sigma) V^T / sqrt(m), (n, n), symmetric; V from the QR of a normal matrix.
std::vector<double> spectrum(const MadeUpProblem& problem, const ProblemShape& shape) {
  const std::int64_t n = shape.n;
  const int order = checked_int(n, "n");
  std::vector<double> v(static_cast<std::size_t>(n * n)), tau(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < n; ++j) normals(problem.seed, j, DrawPurpose::kVectors, n, v.data() + j * n);
  int info = LAPACKE_dgeqrf(LAPACK_COL_MAJOR, order, order, v.data(), order, tau.data());
  if (info == 0) info = LAPACKE_dorgqr(LAPACK_COL_MAJOR, order, order, order, v.data(), order, tau.data());
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACK's QR of a made-up basis returned {}", info));
  std::vector<double> scaled = v, product(v.size());
  for (std::int64_t j = 0; j < n; ++j) {
    const double fraction = n == 1 ? 0 : static_cast<double>(j) / static_cast<double>(n - 1);
    const double sigma = std::pow(problem.cond, -fraction) / std::sqrt(static_cast<double>(shape.m));
    for (std::int64_t i = 0; i < n; ++i) scaled[static_cast<std::size_t>(j * n + i)] *= sigma;
  }
  cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, order, order, order, 1.0, scaled.data(), order, v.data(), order,
              0.0, product.data(), order);
  return product;
}

/// ||A 1|| / sqrt(m) as it is expected: a row is g^T W, so that its sum is normal with the deviation ||W 1||.
double expected_row_sum(const std::vector<double>& w, std::int64_t n) {
  double square = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += w[static_cast<std::size_t>(j * n + i)];
    square += sum * sum;
  }
  return std::sqrt(square);
}

/// a = G w, chunk by chunk.
template <class T>
void fill_matrix(std::uint64_t seed, const std::vector<double>& w, const SlabView& a, cublasHandle_t blas,
                 const CudaStream& stream) {
  const std::int64_t n = a.cols;
  const std::vector<T> narrow(w.begin(), w.end());
  const DeviceBuffer<T> factor(n * n);
  check(cudaMemcpyAsync(factor.data(), narrow.data(), factor.bytes(), cudaMemcpyHostToDevice, stream.get()));
  const std::int64_t most = std::clamp<std::int64_t>(kChunkBytes / (n * static_cast<std::int64_t>(sizeof(T))), 1,
                                                     std::max<std::int64_t>(1, a.rows));
  const DeviceBuffer<T> random(most * n);
  const int order = checked_int(n, "n"), pitch = checked_int(a.pitch, "n");
  for (std::int64_t done = 0; done < a.rows; done += most) {
    const SlabView part = rows_of(a, done, std::min(most, a.rows - done));
    check(cuda::fill_normal_rows(seed, part.first_row, part.rows, n, random.data(), stream.get()));
    // Row-major rows are the columns of cuBLAS's matrices, and w is symmetric.
    check(gemm(blas, order, checked_int(part.rows, "rows"), order, factor.data(), order, random.data(), order,
               static_cast<T*>(const_cast<void*>(part.data)), pitch));
  }
  stream.synchronize();  // the buffers end here
}

}  // namespace

void make_up_rows(const MadeUpProblem& problem, const ProblemShape& shape, const RowsOnDevice& rows,
                  cublasHandle_t blas, const CudaStream& stream, std::vector<double>& b_squares) {
  const auto& [a, b] = rows;
  require(element_size(a.type) > 2, ErrorKind::kUsage, "rows are made up in float32 and float64 only");
  require(b.cols <= cuda::kMostProductColumns, ErrorKind::kUsage,
          fmt::format("rows are made up with at most {} right-hand sides", cuda::kMostProductColumns));
  const std::vector<double> w = spectrum(problem, shape);
  if (a.type == ElementType::kFloat64) {
    fill_matrix<double>(problem.seed, w, a, blas, stream);
  } else {
    fill_matrix<float>(problem.seed, w, a, blas, stream);
  }
  const double noise = problem.residual * expected_row_sum(w, shape.n);
  check(cuda::fill_right_hand_sides(problem.seed, a, noise, b.cols, static_cast<double*>(const_cast<void*>(b.data)),
                                    stream.get()));
  const DeviceBuffer<double> scratch(cuda::column_product_doubles(b.cols)), products(b.cols * b.cols);
  check(cudaMemsetAsync(products.data(), 0, products.bytes(), stream.get()));
  check(cuda::column_products(b, scratch.data(), products.data(), stream.get()));
  std::vector<double> host(static_cast<std::size_t>(products.count()));
  check(cudaMemcpyAsync(host.data(), products.data(), products.bytes(), cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  for (std::int64_t k = 0; k < b.cols; ++k) {
    b_squares[static_cast<std::size_t>(k)] += host[static_cast<std::size_t>(k * (b.cols + 1))];
  }
}

}  // namespace tallsketch
