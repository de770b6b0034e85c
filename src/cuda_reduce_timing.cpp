#include "src/cuda_reduce_timing.h"

#include "src/cuda_handles.h"
#include "src/cuda_sketch_sum.h"
#include "src/nccl_reduce.h"

namespace tallsketch {

namespace {

template <class T>
ReduceTiming time_sums(const ReduceCase& timed, int repeats, NcclReduce* nccl, const Communicator& comm) {
  const CudaStream stream;
  DeviceBuffer<T> sketch(timed.elements()), saved(timed.elements());
  const SketchView<T> view{sketch.data(), timed.d, timed.n + timed.r, timed.n + timed.r};
  const auto copy = [&](const DeviceBuffer<T>& from, const DeviceBuffer<T>& to) {
    check(cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToDevice, stream.get()));
    stream.synchronize();
  };
  SummedBuffer buffer;
  buffer.set = [&](const std::vector<double>& numbers) {
    const std::vector<T> rounded(numbers.begin(), numbers.end());
    check(cudaMemcpyAsync(sketch.data(), rounded.data(), sketch.bytes(), cudaMemcpyHostToDevice, stream.get()));
    stream.synchronize();
  };
  buffer.save = [&] { copy(sketch, saved); };
  buffer.restore = [&] { copy(saved, sketch); };
  buffer.sum = [&] {
    if constexpr (sizeof(T) == sizeof(float)) {
      const bool halves = timed.precision == SketchPrecision::kFp16;
      sum_over_ranks(view, timed.n, halves ? ReducePrecision::kFp16 : ReducePrecision::kFp32, nccl, comm, stream);
    } else {
      sum_over_ranks(view, nccl, comm, stream);
    }
  };
  buffer.get = [&] {
    const std::vector<T> host = copied_to_host(sketch, stream);
    return std::vector<double>(host.begin(), host.end());
  };
  return time_reduce(timed, repeats, buffer, comm);
}

}  // namespace

ReduceTiming time_cuda_reduce(const ReduceCase& timed, int repeats, NcclReduce* nccl, const Communicator& comm) {
  return timed.precision == SketchPrecision::kFp64 ? time_sums<double>(timed, repeats, nccl, comm)
                                                   : time_sums<float>(timed, repeats, nccl, comm);
}

}  // namespace tallsketch
