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
    : n(size), r(size * size), inverse(size * size), vectors(4 * size), host(2 * size * 8) {}

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

/// Scales v to length 1; returns its length.
double DeviceTriangle::normalise(double* v) const {
  const int n = static_cast<int>(size());
  double norm = 0;
  check(cublasDnrm2(blas_, n, v, 1, &norm));  // waits
  const double factor = 1 / norm;
  check(cublasDscal(blas_, n, &factor, v, 1));
  return norm;
}

double DeviceTriangle::condition_estimate() const {
  const std::vector<double> start = condition_start(size());
  std::copy(start.begin(), start.end(), host());
  double* const v = vector(0);
  double* const w = vector(1);
  double* const between = vector(2);
  for (double* const at : {v, w}) {
    check(cudaMemcpyAsync(at, host(), bytes_of(size()), cudaMemcpyHostToDevice, stream_.get()));
  }
  const double* const r = memory_->r.data();
  double largest = 0, smallest = 0;
  for (int step = 0; step < kConditionSteps; ++step) {
    const double before[2] = {largest, smallest};
    product(r, CUBLAS_OP_N, v, between);
    product(r, CUBLAS_OP_T, between, v);
    product(inverse(), CUBLAS_OP_T, w, between);
    product(inverse(), CUBLAS_OP_N, between, w);
    largest = std::sqrt(normalise(v));
    smallest = 1 / std::sqrt(normalise(w));
    if (condition_has_settled(step, before[0], largest, before[1], smallest)) break;
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
