#include "src/cuda_handles.h"

#include <fmt/format.h>

#include "src/error.h"
#include "src/host_threads.h"

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

PinnedBuffer::PinnedBuffer(std::int64_t bytes) {
  constexpr std::int64_t kLarge = std::int64_t{2} << 20;  // HostBuffer then has its pages for itself
  if (bytes <= 0) return;
  if (bytes < kLarge) {
    check(cudaMallocHost(&data_, static_cast<std::size_t>(bytes)));
  } else {
    HostBuffer pages(bytes);
    // Pages are made here by several threads: the driver makes them one after the other. Every 4 KiB, because huge pages are
    // not given everywhere, nor for all of the buffer.
    constexpr std::int64_t kPage = 4096;
    std::byte* const first = pages.data();
#pragma omp parallel for schedule(static) num_threads(team_size())
    for (std::int64_t at = 0; at < bytes; at += kPage) first[at] = std::byte{0};
    check(cudaHostRegister(pages.data(), static_cast<std::size_t>(bytes), cudaHostRegisterDefault));
    pages_ = std::move(pages);
    data_ = pages_.data();
  }
  bytes_ = bytes;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  if (pages_.data() != nullptr) {
    cudaHostUnregister(data_);
  } else {
    cudaFreeHost(data_);
  }
}

LibraryHandle<cublasHandle_t> make_blas(const CudaStream& stream) {
  cublasHandle_t raw = nullptr;
  check(cublasCreate(&raw));
  LibraryHandle<cublasHandle_t> handle(raw);
  check(cublasSetStream(handle.get(), stream.get()));
  return handle;
}

}  // namespace tallsketch
