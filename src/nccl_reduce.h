// NcclReduce: the all-reduce of the sketch over GPUs. NCCL's errors are local and its calls may hang when a peer is
// lost, so the communicator is non-blocking and everything is polled: an error ends the job at once, and the watchdog ends one
// that hangs, with the names of the ranks that are missing. Made by cuda_backend.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>
#include <nccl.h>

namespace tallsketch {

class Communicator;

class NcclReduce {
 public:
  /// Collective: every rank of comm has its device current. Errors: kCommunication, local to a rank.
  explicit NcclReduce(const Communicator& comm);
  ~NcclReduce();
  NcclReduce(const NcclReduce&) = delete;
  NcclReduce& operator=(const NcclReduce&) = delete;

  /// Collective: element-wise sum over ranks, in place; returns when it is done. Same bits at fixed ranks and devices.
  /// data    in/out (count) device FP32 or FP64; count is compared over ranks first
  void sum(float* data, std::int64_t count, cudaStream_t stream) { sum(data, count, ncclFloat, stream); }
  void sum(double* data, std::int64_t count, cudaStream_t stream) { sum(data, count, ncclDouble, stream); }
  /// The same in IEEE halves; partial sums are rounded.
  void sum(std::uint16_t* halves, std::int64_t count, cudaStream_t stream) { sum(halves, count, ncclHalf, stream); }

 private:
  void sum(void* data, std::int64_t count, ncclDataType_t type, cudaStream_t stream);
  void wait(ncclResult_t status, const char* what);
  [[noreturn]] void fail(const char* what, ncclResult_t status);

  const Communicator& comm_;
  ncclComm_t nccl_ = nullptr;
};

/// "2.28.9"
const char* nccl_version_text();

}  // namespace tallsketch
