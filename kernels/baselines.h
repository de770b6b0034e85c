// CUDA launchers for the baselines of `bench sketch`: S as a sparse matrix for cuSPARSE, dense Gaussian rows for cuBLAS.
// Called by src/cuda_baselines.cpp. All work goes on the stream given; nothing is allocated; the launch status returns.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/sketch_spec.h"

namespace tallsketch::cuda {

/// Device memory of S in compressed sparse rows, and what making it needs. nnz = rows * zeta.
struct CsrBuffers {
  std::uint32_t* entries = nullptr;          // (nnz) in: of rows 0, ..., rows - 1, by fill_entries
  std::uint32_t* sorted_entries = nullptr;   // (nnz) scratch
  std::int32_t* unsorted_columns = nullptr;  // (nnz) scratch
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;    // csr_scratch_bytes
  std::int32_t* offsets = nullptr;  // (d + 1) out: first element of every row of S
  std::int32_t* columns = nullptr;  // (nnz) out, ascending in a row of S: rows of the slab
  float* values = nullptr;          // (nnz) out: 1 or -1
};

/// Bytes of CsrBuffers::scratch.
[[nodiscard]] cudaError_t csr_scratch_bytes(const SketchSpec& spec, std::int64_t rows, std::size_t* bytes);

/// S of some rows in compressed sparse rows, unscaled, from its entries.
/// Limits  rows * zeta below 2^31
/// Cost    a stable radix sort of nnz pairs by the bits of d, and three passes over them
[[nodiscard]] cudaError_t build_csr(const SketchSpec& spec, std::int64_t rows, const CsrBuffers& buffers,
                                    cudaStream_t stream);

/// Elements [first, first + count) of an endless row of N(0, 1) numbers, times scale, by Box and Muller.
/// out     out (count) device FP32
/// Limits  first a multiple of 4
[[nodiscard]] cudaError_t fill_gaussian(std::uint64_t seed, std::int64_t first, std::int64_t count, float scale,
                                        float* out, cudaStream_t stream);

}  // namespace tallsketch::cuda
