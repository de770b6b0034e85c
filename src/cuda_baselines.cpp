#include "src/cuda_baselines.h"

#include <algorithm>
#include <cmath>

#include "kernels/baselines.h"
#include "kernels/sketch_cuda.h"
#include "src/error.h"

namespace tallsketch {

namespace {

constexpr cusparseSpMMAlg_t kSpmmAlgorithm = CUSPARSE_SPMM_CSR_ALG2;  // the one for row-major dense matrices; paper F
constexpr cusparseOperation_t kAsIs = CUSPARSE_OPERATION_NON_TRANSPOSE;
constexpr float kOne = 1, kZero = 0;

constexpr std::int64_t kGaussianFloats = std::int64_t{1} << 28;  // of a slab of S: 1 GiB

}  // namespace

SpmmSketcher::SpmmSketcher(const SketchSpec& spec, const SlabView& a, const SketchView<float>& sketch)
    : spec_(spec), rows_(a.rows) {
  cusparseHandle_t handle = nullptr;
  check(cusparseCreate(&handle));
  handle_.reset(handle);
  cusparseDnMatDescr_t dense = nullptr;
  check(
      cusparseCreateDnMat(&dense, a.rows, a.cols, a.pitch, const_cast<void*>(a.data), CUDA_R_32F, CUSPARSE_ORDER_ROW));
  a_.reset(dense);
  check(
      cusparseCreateDnMat(&dense, sketch.rows, sketch.cols, sketch.pitch, sketch.data, CUDA_R_32F, CUSPARSE_ORDER_ROW));
  sketch_.reset(dense);

  const std::int64_t nnz = checked_int(rows_ * spec.zeta, "the number of nonzeros of S");
  entries_ = DeviceBuffer<std::uint32_t>(nnz);
  sorted_entries_ = DeviceBuffer<std::uint32_t>(nnz);
  unsorted_columns_ = DeviceBuffer<std::int32_t>(nnz);
  columns_ = DeviceBuffer<std::int32_t>(nnz);
  offsets_ = DeviceBuffer<std::int32_t>(spec.d + 1);
  values_ = DeviceBuffer<float>(nnz);
  std::size_t bytes = 0;
  check(cuda::csr_scratch_bytes(spec, rows_, &bytes));
  sort_scratch_ = DeviceBuffer<std::byte>(static_cast<std::int64_t>(bytes));
}

void SpmmSketcher::build(const CudaStream& stream) {
  check(cuda::fill_entries(spec_, 0, rows_, entries_.data(), stream.get()));
  const cuda::CsrBuffers buffers{entries_.data(),      sorted_entries_.data(), unsorted_columns_.data(),
                                 sort_scratch_.data(), sort_scratch_.bytes(),  offsets_.data(),
                                 columns_.data(),      values_.data()};
  check(cuda::build_csr(spec_, rows_, buffers, stream.get()));
  // A descriptor a build: cuSPARSE remembers in it that it has been preprocessed.
  cusparseSpMatDescr_t s = nullptr;
  check(cusparseCreateCsr(&s, spec_.d, rows_, values_.count(), offsets_.data(), columns_.data(), values_.data(),
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  s_.reset(s);
}

void SpmmSketcher::preprocess(const CudaStream& stream) {
  check(cusparseSetStream(handle_.get(), stream.get()));
  std::size_t bytes = 0;
  check(cusparseSpMM_bufferSize(handle_.get(), kAsIs, kAsIs, &kOne, s_.get(), a_.get(), &kZero, sketch_.get(),
                                CUDA_R_32F, kSpmmAlgorithm, &bytes));
  if (bytes > spmm_scratch_.bytes()) spmm_scratch_ = DeviceBuffer<std::byte>(static_cast<std::int64_t>(bytes));
  check(cusparseSpMM_preprocess(handle_.get(), kAsIs, kAsIs, &kOne, s_.get(), a_.get(), &kZero, sketch_.get(),
                                CUDA_R_32F, kSpmmAlgorithm, spmm_scratch_.data()));
}

void SpmmSketcher::apply(const CudaStream& stream) {
  check(cusparseSetStream(handle_.get(), stream.get()));
  check(cusparseSpMM(handle_.get(), kAsIs, kAsIs, &kOne, s_.get(), a_.get(), &kZero, sketch_.get(), CUDA_R_32F,
                     kSpmmAlgorithm, spmm_scratch_.data()));
}

GaussianSketcher::GaussianSketcher(std::uint64_t seed, std::int64_t d)
    : seed_(seed), d_(d), rows_per_slab_(std::max<std::int64_t>(4, kGaussianFloats / d / 4 * 4)) {
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle));
  handle_.reset(handle);
  slab_ = DeviceBuffer<float>(rows_per_slab_ * d);
}

void GaussianSketcher::generate(std::int64_t first_row, std::int64_t rows, const CudaStream& stream) {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d_)));
  check(cuda::fill_gaussian(seed_, first_row * d_, rows * d_, scale, slab_.data(), stream.get()));
}

void GaussianSketcher::multiply(const SlabView& a, const SketchView<float>& sketch, const CudaStream& stream) {
  const auto d = checked_int(d_, "d"), n = checked_int(a.cols, "n"), rows = checked_int(a.rows, "the rows of a slab");
  const auto pitch = checked_int(a.pitch, "the pitch of A"), sketch_pitch = checked_int(sketch.pitch, "n");
  check(cublasSetStream(handle_.get(), stream.get()));
  // Row-major matrices are cuBLAS's transposes: sketch^T = a^T (S^T), and the slab, (rows, d) row-major, is S.
  check(cublasSgemm(handle_.get(), CUBLAS_OP_N, CUBLAS_OP_T, n, d, rows, &kOne, static_cast<const float*>(a.data),
                    pitch, slab_.data(), d, a.first_row == 0 ? &kZero : &kOne, sketch.data, sketch_pitch));
}

}  // namespace tallsketch
