#include "src/cuda_made_up.h"

#include <algorithm>

#include "kernels/gram_cuda.h"
#include "kernels/made_up_cuda.h"
#include "src/error.h"

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

/// a = G mix, chunk by chunk.
template <class T>
void fill_matrix(std::uint64_t seed, const std::vector<double>& mix, const SlabView& a, cublasHandle_t blas,
                 const CudaStream& stream) {
  const std::int64_t n = a.cols;
  const std::vector<T> narrow(mix.begin(), mix.end());
  const DeviceBuffer<T> factor(n * n);
  check(cudaMemcpyAsync(factor.data(), narrow.data(), factor.bytes(), cudaMemcpyHostToDevice, stream.get()));
  const std::int64_t most = std::clamp<std::int64_t>(kChunkBytes / (n * static_cast<std::int64_t>(sizeof(T))), 1,
                                                     std::max<std::int64_t>(1, a.rows));
  const DeviceBuffer<T> random(most * n);
  const int order = checked_int(n, "n"), pitch = checked_int(a.pitch, "n");
  for (std::int64_t done = 0; done < a.rows; done += most) {
    const SlabView part = rows_of(a, done, std::min(most, a.rows - done));
    check(cuda::fill_normal_rows(seed, part.first_row, part.rows, n, random.data(), stream.get()));
    // Row-major rows are the columns of cuBLAS's matrices, and mix is symmetric.
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
  const std::vector<double> mix = mixing_matrix(problem, shape);
  if (a.type == ElementType::kFloat64) {
    fill_matrix<double>(problem.seed, mix, a, blas, stream);
  } else {
    fill_matrix<float>(problem.seed, mix, a, blas, stream);
  }
  const double noise = noise_of(problem, shape, mix);
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
