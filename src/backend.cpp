#include "src/backend.h"

#include <cmath>

#include "src/communicator.h"
#include "src/error.h"
#include "src/host_backend.h"
#if TALLSKETCH_HAVE_CUDA
#include "src/cuda_backend.h"
#endif

namespace tallsketch {

std::unique_ptr<Backend> make_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer) {
#if TALLSKETCH_HAVE_CUDA
  const bool wanted = options.backend == BackendChoice::kCuda;
  const bool everywhere = options.backend != BackendChoice::kHost && comm.min(visible_devices()) > 0;
  if (wanted || everywhere) return make_cuda_backend(options, comm, timer);
#else
  require(options.backend != BackendChoice::kCuda, ErrorKind::kUsage,
          "--backend cuda: this tallsketch was built without CUDA; build preset 'cuda', or use --backend host");
#endif
  return make_host_backend(options, comm, timer);
}

std::vector<int> column_exponents(const std::vector<float>& column_max) {
  std::vector<int> exponents;
  for (const float largest : column_max) {
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    exponents.push_back(-exponent);
  }
  return exponents;
}

}  // namespace tallsketch
