#include "src/backend.h"

#include "src/communicator.h"
#include "src/error.h"
#include "src/host_backend.h"
#if TALLSKETCH_HAVE_CUDA
#include "src/cuda_backend.h"
#endif

namespace tallsketch {

std::unique_ptr<Backend> make_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer) {
#if TALLSKETCH_HAVE_CUDA
  // GPUs on some ranks only are refused there: a job on processors alone must have been asked for.
  const bool wanted = options.backend == BackendChoice::kCuda;
  const bool somewhere = options.backend != BackendChoice::kHost && comm.max(visible_devices()) > 0;
  if (wanted || somewhere) return make_cuda_backend(options, comm, timer);
#else
  comm.together([&] {
    require(options.backend != BackendChoice::kCuda, ErrorKind::kUsage,
            "--backend cuda: this tallsketch was built without CUDA; build preset 'cuda', or use --backend host");
  });
#endif
  return make_host_backend(options, comm, timer);
}

}  // namespace tallsketch
