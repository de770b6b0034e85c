#include "src/cuda_sketch_sum.h"

#include <vector>

#include "src/communicator.h"
#include "src/cuda_half_reduce.h"
#include "src/cuda_handles.h"
#include "src/half_reduce.h"
#include "src/nccl_reduce.h"

namespace tallsketch {

namespace {

/// Over the host. sum  collective, sums the elements of a vector over ranks
template <class T, class F>
void sum_by_mpi(const SketchView<T>& sketch, const Communicator& comm, const CudaStream& stream, F&& sum) {
  if (comm.size() == 1) return;
  std::vector<T> host;
  comm.together([&] { host = copied_to_host(sketch.data, sketch.rows * sketch.cols, stream); });
  sum(host);
  comm.together([&] {
    check(cudaMemcpyAsync(sketch.data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice, stream.get()));
    stream.synchronize();
  });
}

}  // namespace

void sum_over_ranks(const SketchView<float>& sketch, std::int64_t n, ReducePrecision precision, NcclReduce* nccl,
                    const Communicator& comm, const CudaStream& stream) {
  const bool halves = precision == ReducePrecision::kFp16;
  if (nccl == nullptr) {
    sum_by_mpi(sketch, comm, stream, [&](std::vector<float>& host) {
      if (halves) {
        sum_in_halves(comm, host, sketch.rows, n, sketch.cols - n);
      } else {
        comm.sum(host.data(), static_cast<std::int64_t>(host.size()));
      }
    });
  } else if (halves) {
    sum_in_halves_on_device(*nccl, comm, sketch, n, stream);
  } else {
    nccl->sum(sketch.data, sketch.rows * sketch.cols, stream.get());
  }
}

void sum_over_ranks(const SketchView<double>& sketch, NcclReduce* nccl, const Communicator& comm,
                    const CudaStream& stream) {
  if (nccl == nullptr) {
    sum_by_mpi(sketch, comm, stream,
               [&](std::vector<double>& host) { comm.sum(host.data(), static_cast<std::int64_t>(host.size())); });
  } else {
    nccl->sum(sketch.data, sketch.rows * sketch.cols, stream.get());
  }
}

}  // namespace tallsketch
