// The sum of all ranks' sketches, in the place of this rank's: by NCCL, or by MPI where ranks share a GPU. Called by
// cuda_backend.
#pragma once

#include <cstdint>

#include "kernels/views.h"
#include "src/choices.h"

namespace tallsketch {

class Communicator;
class CudaStream;
class NcclReduce;

/// Collective. Errors: kCommunication
/// sketch   in/out (d, cols) row-major device, pitch cols; returns when it is done
/// n        columns of A, of which --reduce fp16 sums halves
/// nccl     null: by MPI, over the host
/// Order    the library's; the same bits at fixed ranks and devices
void sum_over_ranks(const SketchView<float>& sketch, std::int64_t n, ReducePrecision precision, NcclReduce* nccl,
                    const Communicator& comm, const CudaStream& stream);
void sum_over_ranks(const SketchView<double>& sketch, NcclReduce* nccl, const Communicator& comm,
                    const CudaStream& stream);

}  // namespace tallsketch
