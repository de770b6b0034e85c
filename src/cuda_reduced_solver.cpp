#include "src/cuda_reduced_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "kernels/sketch_cuda.h"
#include "src/error.h"

namespace tallsketch {

namespace {

struct SolverDeleter {
  void operator()(cusolverDnHandle_t handle) const { cusolverDnDestroy(handle); }
};
using SolverHandle = std::unique_ptr<std::remove_pointer_t<cusolverDnHandle_t>, SolverDeleter>;

struct ParamsDeleter {
  void operator()(cusolverDnParams_t params) const { cusolverDnDestroyParams(params); }
};
using ParamsHandle = std::unique_ptr<std::remove_pointer_t<cusolverDnParams_t>, ParamsDeleter>;

template <class T>
constexpr cudaDataType kCudaType = sizeof(T) == sizeof(double) ? CUDA_R_64F : CUDA_R_32F;

}  // namespace

template <class T>
std::vector<double> column_maxima_on_device(const SketchView<T>& sketch, const CudaStream& stream) {
  DeviceBuffer<T> column_max(sketch.cols);
  DeviceBuffer<double> column_squares(sketch.cols);
  check(cudaMemsetAsync(column_max.data(), 0, column_max.bytes(), stream.get()));
  check(cudaMemsetAsync(column_squares.data(), 0, column_squares.bytes(), stream.get()));
  const SlabView view{sketch.data, sketch.rows, sketch.cols, sketch.pitch, kElementType<T>, 0};
  check(cuda::column_statistics(view, column_max.data(), column_squares.data(), stream.get()));
  std::vector<T> largest(static_cast<std::size_t>(sketch.cols));
  check(cudaMemcpyAsync(largest.data(), column_max.data(), column_max.bytes(), cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  return {largest.begin(), largest.end()};
}

template <class T>
TriangularFactor qr_of_sketch_on_device(const SketchView<T>& sketch, std::int64_t n, std::int64_t r, double scale,
                                        const CudaStream& stream) {
  const std::int64_t d = sketch.rows, cols = n + r;
  TriangularFactor factor{n, r, kUnitRoundoffOf<T>, {}, column_exponents(column_maxima_on_device(sketch, stream))};
  std::vector<double> column_factor;
  // The factor has to be a finite double: an FP64 column of subnormal numbers is scaled as far as that goes.
  for (int& exponent : factor.exponent) {
    exponent = std::min(exponent, std::numeric_limits<double>::max_exponent - 1);
    column_factor.push_back(std::ldexp(scale, exponent));
  }
  DeviceBuffer<double> device_factor(cols);
  check(cudaMemcpyAsync(device_factor.data(), column_factor.data(), device_factor.bytes(), cudaMemcpyHostToDevice,
                        stream.get()));
  DeviceBuffer<T> q(d * cols), tau(cols);
  check(cuda::transpose_scaled(sketch, device_factor.data(), q.data(), stream.get()));

  cusolverDnHandle_t raw_handle = nullptr;
  check(cusolverDnCreate(&raw_handle));
  const SolverHandle handle(raw_handle);
  check(cusolverDnSetStream(handle.get(), stream.get()));
  cusolverDnParams_t raw_params = nullptr;
  check(cusolverDnCreateParams(&raw_params));
  const ParamsHandle params(raw_params);
  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXgeqrf_bufferSize(handle.get(), params.get(), d, cols, kCudaType<T>, q.data(), d, kCudaType<T>,
                                    tau.data(), kCudaType<T>, &device_bytes, &host_bytes));
  constexpr std::size_t kAbsurd = std::size_t{1} << 42;  // an overflowed query asks for exabytes
  require(device_bytes < kAbsurd && host_bytes < kAbsurd, ErrorKind::kMemory,
          fmt::format("cuSOLVER asks for {} bytes to factor a {} x {} sketch; use a smaller --oversample", device_bytes,
                      d, cols));
  DeviceBuffer<std::byte> work(static_cast<std::int64_t>(device_bytes));
  std::vector<std::byte> host_work(host_bytes);
  DeviceBuffer<int> info(1);
  check(cusolverDnXgeqrf(handle.get(), params.get(), d, cols, kCudaType<T>, q.data(), d, kCudaType<T>, tau.data(),
                         kCudaType<T>, work.data(), device_bytes, host_work.data(), host_bytes, info.data()));
  int status = 0;
  check(cudaMemcpyAsync(&status, info.data(), sizeof status, cudaMemcpyDeviceToHost, stream.get()));
  std::vector<T> upper(static_cast<std::size_t>(cols * cols), T{0});
  const std::int64_t height = std::min(d, cols);
  check(cudaMemcpy2DAsync(upper.data(), static_cast<std::size_t>(cols) * sizeof(T), q.data(),
                          static_cast<std::size_t>(d) * sizeof(T), static_cast<std::size_t>(height) * sizeof(T),
                          static_cast<std::size_t>(cols), cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  require(status == 0, ErrorKind::kInternal, fmt::format("cusolverDnXgeqrf returned info = {}", status));
  factor.upper.assign(upper.begin(), upper.end());
  return factor;
}

template std::vector<double> column_maxima_on_device(const SketchView<float>&, const CudaStream&);
template std::vector<double> column_maxima_on_device(const SketchView<double>&, const CudaStream&);
template TriangularFactor qr_of_sketch_on_device(const SketchView<float>&, std::int64_t, std::int64_t, double,
                                                 const CudaStream&);
template TriangularFactor qr_of_sketch_on_device(const SketchView<double>&, std::int64_t, std::int64_t, double,
                                                 const CudaStream&);

}  // namespace tallsketch
