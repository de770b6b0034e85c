// The device twin of half_reduce: `--reduce fp16` through NCCL. Called by cuda_backend.
#pragma once

#include <cstdint>

#include "kernels/views.h"

namespace tallsketch {

class Communicator;
class CudaStream;
class NcclReduce;

/// Collective: sums sketches over ranks, in place; the n columns of A in halves, the r of b in FP32.
/// sketch  in/out (d, n + r) row-major device FP32, pitch n + r
/// Order   NCCL's; every partial sum is rounded to half. Same bits at fixed ranks and devices
/// Memory  2 d n + 4 d r bytes while it runs, less than the factorisation takes later
void sum_in_halves_on_device(NcclReduce& nccl, const Communicator& comm, const SketchView<float>& sketch,
                             std::int64_t n, const CudaStream& stream);

}  // namespace tallsketch
