// Decoding of stored elements on the host: byte order, integers, orientation, narrowing. Called by file_source and
// host_backend.
#pragma once

#include "kernels/encoding.h"

namespace tallsketch::host {

/// Writes the rows as kernels want them.
/// from     in (rows, cols) encoded, dense, at any alignment
/// out      out (rows, cols) row-major, dense, native byte order; no overlap with from
/// out_type element_type_of(from.encoding.type), or kFloat32 in the place of kFloat64 (--data-precision fp32)
/// Limits   exact, but for 64-bit integers beyond 2^53 and narrowing to FP32, which round to nearest, ties to even
/// Cost     reads and writes every element once; by columns in blocks that stay in the cache
void decode(const EncodedView& from, void* out, ElementType out_type, int threads);

}  // namespace tallsketch::host
