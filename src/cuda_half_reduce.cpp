#include "src/cuda_half_reduce.h"

#include <vector>

#include "kernels/sketch_cuda.h"
#include "src/communicator.h"
#include "src/cuda_handles.h"
#include "src/cuda_reduced_solver.h"
#include "src/half_reduce.h"
#include "src/nccl_reduce.h"

namespace tallsketch {

void sum_in_halves_on_device(NcclReduce& nccl, const Communicator& comm, const SketchView<float>& sketch,
                             std::int64_t n, const CudaStream& stream) {
  const std::int64_t d = sketch.rows, r = sketch.cols - n;
  const SketchView<float> of_a{sketch.data, d, n, sketch.pitch};
  std::vector<double> largest;
  comm.together([&] { largest = column_maxima_on_device(of_a, stream); });
  std::vector<double> factor = agree_on_half_factors(comm, largest);

  DeviceBuffer<double> device_factor;
  DeviceBuffer<std::uint16_t> halves;
  DeviceBuffer<float> rest;
  const auto row_bytes = static_cast<std::size_t>(r) * sizeof(float);
  const auto sketch_row_bytes = static_cast<std::size_t>(sketch.pitch) * sizeof(float);
  const auto set_factor = [&] {
    check(cudaMemcpyAsync(device_factor.data(), factor.data(), device_factor.bytes(), cudaMemcpyHostToDevice,
                          stream.get()));
    stream.synchronize();
  };
  comm.together([&] {
    device_factor = DeviceBuffer<double>(n);
    halves = DeviceBuffer<std::uint16_t>(d * n);
    rest = DeviceBuffer<float>(d * r);
    set_factor();
    check(cuda::narrow_to_half(of_a, device_factor.data(), {halves.data(), d, n, n}, stream.get()));
    check(cudaMemcpy2DAsync(rest.data(), row_bytes, sketch.data + n, sketch_row_bytes, row_bytes,
                            static_cast<std::size_t>(d), cudaMemcpyDeviceToDevice, stream.get()));
  });
  nccl.sum(halves.data(), halves.count(), stream.get());
  nccl.sum(rest.data(), rest.count(), stream.get());
  comm.together([&] {
    for (double& value : factor) value = 1 / value;
    set_factor();
    check(cuda::widen_half(ElementType::kFloat16, {halves.data(), d, n, n}, device_factor.data(), of_a, stream.get()));
    check(cudaMemcpy2DAsync(sketch.data + n, sketch_row_bytes, rest.data(), row_bytes, row_bytes,
                            static_cast<std::size_t>(d), cudaMemcpyDeviceToDevice, stream.get()));
    stream.synchronize();  // the buffers end here
  });
}

}  // namespace tallsketch
