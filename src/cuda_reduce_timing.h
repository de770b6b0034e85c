// `bench reduce` on GPUs. Called by cuda_backend.
#pragma once

#include "src/reduce_timing.h"

namespace tallsketch {

class NcclReduce;

/// Collective, in memory of the current device. nccl  null: by MPI, over the host
ReduceTiming time_cuda_reduce(const ReduceCase& timed, int repeats, NcclReduce* nccl, const Communicator& comm);

}  // namespace tallsketch
