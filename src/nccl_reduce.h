// NcclReduce: the all-reduce of the sketch over GPUs. NCCL's errors are local, and its calls may hang when a peer is lost. Sums
// are polled for errors, which end the job at once; the watchdog, in a thread of its own, ends one that hangs, in a call or in a
// sum, with the names of the ranks that are missing. The communicator blocks: a non-blocking one starts a thread for every sum
// (docs/decisions/0028-blocking-nccl.md). Made by cuda_backend.
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
  [[noreturn]] void fail(const char* what, ncclResult_t status);

  const Communicator& comm_;
  ncclComm_t nccl_ = nullptr;
};

/// "2.28.9"
const char* nccl_version_text();

}  // namespace tallsketch
