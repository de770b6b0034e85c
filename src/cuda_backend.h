// The CUDA backend: slab in device memory, scatter kernels, NCCL all-reduce, cuSOLVER QR.
#pragma once

#include <cstdint>
#include <memory>

#include "src/backend.h"

namespace tallsketch {

/// GPUs that this process can see; 0 without a driver.
std::int64_t visible_devices();

/// Collective: picks each rank's device by its node-local rank, and refuses two ranks on one GPU before NCCL starts.
std::unique_ptr<Backend> make_cuda_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer);

}  // namespace tallsketch
