// Decoding of stored elements on the device; the twin of decode_host.h. Called by cuda_rows.
#pragma once

#include <cuda_runtime.h>

#include "kernels/encoding.h"

namespace tallsketch::cuda {

/// Writes the rows as kernels want them.
/// from   in (rows, cols) encoded, dense, device, aligned to the stored element
/// out    out (rows, cols) row-major device of type out.type, out.pitch elements from row to row; padding is not touched.
///        out.data is written although the view is one of constants
/// Limits, exactness: those of host::decode, bit for bit
/// Cost   reads and writes every element once
[[nodiscard]] cudaError_t decode(const EncodedView& from, const SlabView& out, cudaStream_t stream);

}  // namespace tallsketch::cuda
