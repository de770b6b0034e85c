#include "src/cuda_triangle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/triangle_cuda.h"
#include "src/error.h"

namespace tallsketch {

namespace {

constexpr double kOne = 1, kZero = 0;

std::size_t bytes_of(std::int64_t doubles) { return static_cast<std::size_t>(doubles) * sizeof(double); }

}  // namespace

TriangleMemory::TriangleMemory(std::int64_t size)
    : n(size),
      r(size * size),
      inverse(size * size),
      vectors(3 * size + 2 * kConditionBatch),
      host((2 * size + 2 * kConditionBatch) * 8) {}

template <class T>
DeviceTriangle::DeviceTriangle(const T* matrix, std::int64_t pitch, std::shared_ptr<TriangleMemory> memory,
                               cublasHandle_t blas, const CudaStream& stream)
    : memory_(std::move(memory)), blas_(blas), stream_(stream) {
  const std::int64_t n = size();
  checked_int(n, "n");
  check(cuda::take_triangle(matrix, pitch, n, memory_->r.data(), memory_->inverse.data(), vector(0), stream_.get()));
  check(cudaMemcpyAsync(host(), vector(0), bytes_of(2 * n), cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronize();
  figures_.assign(host(), host() + 2 * n);
}

template DeviceTriangle::DeviceTriangle(const float*, std::int64_t, std::shared_ptr<TriangleMemory>, cublasHandle_t,
                                        const CudaStream&);
template DeviceTriangle::DeviceTriangle(const double*, std::int64_t, std::shared_ptr<TriangleMemory>, cublasHandle_t,
                                        const CudaStream&);

Triangle::Vector DeviceTriangle::diagonal() const { return {figures_.begin(), figures_.begin() + size()}; }

Triangle::Vector DeviceTriangle::column_norms() const { return {figures_.begin() + size(), figures_.end()}; }

const double* DeviceTriangle::inverse() const {
  if (!std::exchange(inverted_, true)) {  // from the identity, which the constructor left there
    const int n = static_cast<int>(size());
    check(cublasDtrsm(blas_, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, n, &kOne,
                      memory_->r.data(), n, memory_->inverse.data(), n));
  }
  return memory_->inverse.data();
}

void DeviceTriangle::product(const double* matrix, cublasOperation_t op, const double* in, double* out) const {
  const int n = static_cast<int>(size());
  check(cublasDgemv(blas_, op, n, n, &kOne, matrix, n, in, 1, &kZero, out, 1));
}

void DeviceTriangle::transform(const double* matrix, cublasOperation_t op, Vector& v) const {
  std::copy(v.begin(), v.end(), host());
  check(cudaMemcpyAsync(vector(0), host(), bytes_of(size()), cudaMemcpyHostToDevice, stream_.get()));
  product(matrix, op, vector(0), vector(1));
  check(cudaMemcpyAsync(host(), vector(1), bytes_of(size()), cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronize();
  std::copy_n(host(), size(), v.begin());
}

void DeviceTriangle::solve_transposed(double* columns, std::int64_t pitch, std::int64_t count) const {
  for (std::int64_t k = 0; k < count; ++k, columns += pitch) {
    product(inverse(), CUBLAS_OP_T, columns, vector(1));
    check(cudaMemcpyAsync(columns, vector(1), bytes_of(size()), cudaMemcpyDeviceToDevice, stream_.get()));
  }
}

double DeviceTriangle::condition_estimate() const {
  const int n = static_cast<int>(size());
  const std::vector<double> start = condition_start(size());
  std::copy(start.begin(), start.end(), host());
  double* const v = vector(0);
  double* const w = vector(1);
  double* const between = vector(2);
  double* const norms = vector(3);  // of v and w after each step
  for (double* const at : {v, w}) {
    check(cudaMemcpyAsync(at, host(), bytes_of(size()), cudaMemcpyHostToDevice, stream_.get()));
  }
  const double* const r = memory_->r.data();
  double largest = 0, smallest = 0;
  for (int first = 0; first < kConditionSteps; first += kConditionBatch) {
    for (int step = 0; step < kConditionBatch; ++step) {
      product(r, CUBLAS_OP_N, v, between);
      product(r, CUBLAS_OP_T, between, v);
      product(inverse(), CUBLAS_OP_T, w, between);
      product(inverse(), CUBLAS_OP_N, between, w);
      check(cuda::two_norms(v, n, norms + 2 * step, stream_.get()));  // w lies behind v
    }
    check(cudaMemcpyAsync(host(), norms, bytes_of(2 * kConditionBatch), cudaMemcpyDeviceToHost, stream_.get()));
    stream_.synchronize();
    const double* const seen = host();
    double of_v = 1, of_w = 1;  // lengths before a step
    for (int step = 0; step < kConditionBatch; ++step) {
      const double before[2] = {largest, smallest};
      largest = std::sqrt(seen[2 * step] / of_v);
      smallest = 1 / std::sqrt(seen[2 * step + 1] / of_w);
      of_v = seen[2 * step];
      of_w = seen[2 * step + 1];
      if (condition_has_settled(first + step, before[0], largest, before[1], smallest)) return largest / smallest;
    }
    const double shrink_v = 1 / of_v, shrink_w = 1 / of_w;
    check(cublasDscal(blas_, n, &shrink_v, v, 1));
    check(cublasDscal(blas_, n, &shrink_w, w, 1));
  }
  return largest / smallest;
}

const UpperTriangle& DeviceTriangle::on_host() const {
  if (!on_host_) {
    std::vector<double> values(static_cast<std::size_t>(size() * size()));
    check(cudaMemcpyAsync(values.data(), memory_->r.data(), bytes_of(size() * size()), cudaMemcpyDeviceToHost,
                          stream_.get()));
    stream_.synchronize();
    on_host_.emplace(size(), values.data(), size());
  }
  return *on_host_;
}

}  // namespace tallsketch
