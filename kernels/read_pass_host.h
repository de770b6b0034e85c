// Read-only pass over a slab: the floor that the host benchmarks compare with.
// Called by the benchmarks only.
#pragma once

#include "kernels/views.h"

namespace tallsketch::host {

/// Sum of all entries, to prove that they were read.
/// slab  in (rows, cols) row-major host FP32
/// Order: fixed for a given shape, whatever the number of threads
/// Cost: reads rows * cols * 4 bytes, nothing else
double read_pass(const SlabView& slab, int threads);

}  // namespace tallsketch::host
