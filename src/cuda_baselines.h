// The rivals that `bench sketch` sets beside the engine: S as a sparse matrix by cuSPARSE, a dense Gaussian S by cuBLAS.
// Called by the CUDA timing and its tests; no part of the product's sketches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/sketch_spec.h"
#include "kernels/views.h"
#include "src/cuda_handles.h"

namespace tallsketch {

/// sketch = S a by cuSPARSE, unscaled: S in CSR, ALG2, FP32, row-major a and sketch, as papers F and B measure it.
/// Call build, preprocess, apply, in this order; again from build on for another time.
class SpmmSketcher {
 public:
  /// a       (rows, n) row-major device FP32, from row 0; rows * spec.zeta below 2^31
  /// sketch  (d, n) row-major device FP32; both must outlive the sketcher
  SpmmSketcher(const SketchSpec& spec, const SlabView& a, const SketchView<float>& sketch);

  /// S from its rule: entries, sort, offsets.
  void build(const CudaStream& stream);
  /// What cuSPARSE derives from S once, before it is applied.
  void preprocess(const CudaStream& stream);
  void apply(const CudaStream& stream);

 private:
  struct Destroy {
    void operator()(cusparseHandle_t handle) const { cusparseDestroy(handle); }
    void operator()(cusparseSpMatDescr_t matrix) const { cusparseDestroySpMat(matrix); }
    void operator()(cusparseDnMatDescr_t matrix) const { cusparseDestroyDnMat(matrix); }
  };
  template <class T>
  using Owner = std::unique_ptr<std::remove_pointer_t<T>, Destroy>;

  SketchSpec spec_;
  std::int64_t rows_;
  Owner<cusparseHandle_t> handle_;
  Owner<cusparseDnMatDescr_t> a_, sketch_;
  Owner<cusparseSpMatDescr_t> s_;
  DeviceBuffer<std::uint32_t> entries_, sorted_entries_;
  DeviceBuffer<std::int32_t> unsorted_columns_, offsets_, columns_;
  DeviceBuffer<float> values_;
  DeviceBuffer<std::byte> sort_scratch_, spmm_scratch_;
};

/// sketch = S a with S dense, N(0, 1/d): paper B's yardstick. S is made and multiplied by slabs of rows of A, in FP32
/// without TF32.
class GaussianSketcher {
 public:
  GaussianSketcher(std::uint64_t seed, std::int64_t d);

  /// Rows of A that one slab of S has columns for; a multiple of 4.
  std::int64_t rows_per_slab() const { return rows_per_slab_; }
  /// Columns [first_row, first_row + rows) of S; rows at most rows_per_slab(), first_row a multiple of 4.
  void generate(std::int64_t first_row, std::int64_t rows, const CudaStream& stream);
  /// sketch = S a for rows from 0 on, sketch += S a for later ones; a: the rows that were generated.
  void multiply(const SlabView& a, const SketchView<float>& sketch, const CudaStream& stream);

 private:
  struct Destroy {
    void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  };

  std::uint64_t seed_;
  std::int64_t d_, rows_per_slab_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, Destroy> handle_;
  DeviceBuffer<float> slab_;  // (rows, d) row-major: columns of S
};

}  // namespace tallsketch
