#include "src/cuda_handles.h"

#include <fmt/format.h>

#include "src/error.h"

namespace tallsketch {

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // not sticky: the next call shall report its own
  const bool memory = status == cudaErrorMemoryAllocation;
  throw Error(memory ? ErrorKind::kMemory : ErrorKind::kInternal,
              fmt::format("CUDA: {} ({}){}", cudaGetErrorString(status), cudaGetErrorName(status),
                          memory ? "; use more ranks, a smaller --oversample or fewer --chunk-rows" : ""),
              where);
}

void check(cusolverStatus_t status, std::source_location where) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  const bool memory = status == CUSOLVER_STATUS_ALLOC_FAILED;
  throw Error(memory ? ErrorKind::kMemory : ErrorKind::kInternal,
              fmt::format("cuSOLVER failed with status {}", static_cast<int>(status)), where);
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const bool memory = status == CUBLAS_STATUS_ALLOC_FAILED;
  throw Error(memory ? ErrorKind::kMemory : ErrorKind::kInternal,
              fmt::format("cuBLAS: {}", cublasGetStatusString(status)), where);
}

void check(cusparseStatus_t status, std::source_location where) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const bool memory = status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES;
  throw Error(memory ? ErrorKind::kMemory : ErrorKind::kInternal,
              fmt::format("cuSPARSE: {}", cusparseGetErrorString(status)), where);
}

LibraryHandle<cublasHandle_t> make_blas(const CudaStream& stream) {
  cublasHandle_t raw = nullptr;
  check(cublasCreate(&raw));
  LibraryHandle<cublasHandle_t> handle(raw);
  check(cublasSetStream(handle.get(), stream.get()));
  return handle;
}

}  // namespace tallsketch
