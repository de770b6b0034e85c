#include "src/nccl_reduce.h"

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/cuda_handles.h"
#include "src/error.h"

namespace tallsketch {

namespace {

/// Between two looks: none at first, because sums of sketches take less than a sleep does, then short sleeps.
class Pause {
 public:
  void take() const {
    constexpr std::chrono::milliseconds kAwake{2};
    if (std::chrono::steady_clock::now() - start_ > kAwake) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

NcclReduce::NcclReduce(const Communicator& comm) : comm_(comm) {
  ncclUniqueId id{};
  comm.together([&] {
    if (!comm.is_root()) return;
    if (const ncclResult_t status = ncclGetUniqueId(&id); status != ncclSuccess) fail("ncclGetUniqueId", status);
  });
  comm.broadcast(&id, sizeof id);
  const Communicator::Waiting waiting(comm_);
  const ncclResult_t status = ncclCommInitRank(&nccl_, comm.size(), id, comm.rank());
  if (status != ncclSuccess) fail("ncclCommInitRank", status);
}

NcclReduce::~NcclReduce() {
  if (nccl_ != nullptr) ncclCommAbort(nccl_);  // never waits for a peer, unlike ncclCommDestroy
}

void NcclReduce::sum(void* data, std::int64_t count, ncclDataType_t type, cudaStream_t stream) {
  comm_.require_equal(count);
  const Communicator::Waiting waiting(comm_);
  const ncclResult_t started = ncclAllReduce(data, data, static_cast<std::size_t>(count), type, ncclSum, nccl_, stream);
  if (started != ncclSuccess) fail("ncclAllReduce", started);
  for (const Pause pause;; pause.take()) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status);
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(nccl_, &state);
    if (asked != ncclSuccess) fail("ncclCommGetAsyncError", asked);
    if (state != ncclSuccess && state != ncclInProgress) fail("ncclAllReduce", state);
  }
}

void NcclReduce::fail(const char* what, ncclResult_t status) {
  const std::string text = fmt::format("{} failed: {}; {}; NCCL_DEBUG=INFO shows more, --comm mpi avoids NCCL", what,
                                       ncclGetErrorString(status), nccl_ != nullptr ? ncclGetLastError(nccl_) : "");
  nccl_ = nullptr;  // not aborted: that may wait for a GPU that hangs, and the job ends with this error
  throw Error(ErrorKind::kCommunication, text);
}

const char* nccl_version_text() {
  static const std::string text = [] {
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess) return std::string("unknown");
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }();
  return text.c_str();
}

}  // namespace tallsketch
