#include "src/nccl_reduce.h"

#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/cuda_handles.h"
#include "src/error.h"

namespace tallsketch {

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point deadline_after(double seconds) {
  if (seconds <= 0) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void pause() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

}  // namespace

NcclReduce::NcclReduce(const Communicator& comm, double timeout) : comm_(comm), timeout_(timeout) {
  ncclUniqueId id{};
  comm.together([&] {
    if (comm.is_root() && ncclGetUniqueId(&id) != ncclSuccess) fail("ncclGetUniqueId", ncclGetLastError(nullptr));
  });
  comm.broadcast(&id, sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  wait(ncclCommInitRankConfig(&nccl_, comm.size(), id, comm.rank(), &config), "ncclCommInitRank");
}

NcclReduce::~NcclReduce() {
  if (nccl_ != nullptr) ncclCommAbort(nccl_);  // never waits for a peer, unlike ncclCommDestroy
}

void NcclReduce::sum(void* data, std::int64_t count, ncclDataType_t type, cudaStream_t stream) {
  // A count that differs between ranks would hang NCCL or mix up elements.
  require(comm_.min(count) == comm_.max(count), ErrorKind::kInternal, "all-reduce counts differ between ranks");
  wait(ncclAllReduce(data, data, static_cast<std::size_t>(count), type, ncclSum, nccl_, stream), "ncclAllReduce");
  const Communicator::Waiting waiting(comm_);
  const auto deadline = deadline_after(timeout_);
  while (true) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status);
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(nccl_, &state) != ncclSuccess || (state != ncclSuccess && state != ncclInProgress)) {
      fail("ncclAllReduce", ncclGetErrorString(state));
    }
    if (Clock::now() > deadline) fail("ncclAllReduce", "no end within --timeout (a lost rank?)");
    pause();
  }
}

void NcclReduce::wait(ncclResult_t status, const char* what) {
  const Communicator::Waiting waiting(comm_);
  const auto deadline = deadline_after(timeout_);
  while (status == ncclInProgress) {
    if (Clock::now() > deadline) fail(what, "no end within --timeout (a lost rank, or no way between the GPUs?)");
    pause();
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(nccl_, &state);
    status = asked == ncclSuccess ? state : asked;
  }
  if (status != ncclSuccess) fail(what, ncclGetErrorString(status));
}

void NcclReduce::fail(const char* what, const char* reason) {
  std::string text = fmt::format("{} failed: {}; {}; NCCL_DEBUG=INFO shows more, --comm mpi avoids NCCL", what, reason,
                                 nccl_ != nullptr ? ncclGetLastError(nccl_) : "");
  if (nccl_ != nullptr) {
    ncclCommAbort(nccl_);
    nccl_ = nullptr;
  }
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
