// Owners and checks for CUDA, its libraries and their memory. Included by src/cuda_*.cpp and src/nccl_*.cpp only.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>
#include <cusparse.h>

#include "src/host_buffer.h"

namespace tallsketch {

/// Throws Error{kMemory} for failed allocations, Error{kInternal} for the rest, with the library's text.
void check(cudaError_t status, std::source_location where = std::source_location::current());
void check(cusolverStatus_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());
void check(cusparseStatus_t status, std::source_location where = std::source_location::current());

/// Plain device memory (never managed).
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::int64_t count) : count_(count) {
    if (count > 0) check(cudaMalloc(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(count) * sizeof(T)));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ != nullptr) cudaFree(data_);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* data() const { return data_; }
  std::int64_t count() const { return count_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// The buffer's memory as `count` Ts, of which nothing is known; allocated anew where there is too little of it.
template <class T>
T* room_for(std::int64_t count, DeviceBuffer<std::byte>& buffer) {
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
  if (buffer.count() < bytes) {
    buffer = {};
    buffer = DeviceBuffer<std::byte>(bytes);
  }
  return reinterpret_cast<T*>(buffer.data());
}

/// Page-locked host memory. Large buffers are huge pages, where the system gives them, locked afterwards: locking takes less
/// than a page fault for every 4 KiB.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::int64_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void swap(PinnedBuffer& other) noexcept {
    std::swap(pages_, other.pages_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  HostBuffer pages_;  // of a large buffer
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// The buffer's memory as `count` Ts; allocated anew where there is too little of it.
template <class T>
T* room_for(std::int64_t count, PinnedBuffer& buffer) {
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
  if (buffer.bytes() < bytes) {
    buffer = {};
    buffer = PinnedBuffer(bytes);
  }
  return static_cast<T*>(buffer.data());
}

struct LibraryDeleter {
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  void operator()(cusolverDnHandle_t handle) const { cusolverDnDestroy(handle); }
  void operator()(cusolverDnParams_t params) const { cusolverDnDestroyParams(params); }
};
template <class T>
using LibraryHandle = std::unique_ptr<std::remove_pointer_t<T>, LibraryDeleter>;

class CudaEvent;

class CudaStream {
 public:
  CudaStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~CudaStream() { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_)); }
  /// What comes after on this stream waits until the event has happened.
  void wait_for(const CudaEvent& event) const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// A cuBLAS handle that works on the stream.
LibraryHandle<cublasHandle_t> make_blas(const CudaStream& stream);

class CudaEvent {
 public:
  friend class CudaStream;
  CudaEvent() { check(cudaEventCreate(&event_)); }
  ~CudaEvent() { cudaEventDestroy(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void record(const CudaStream& stream) { check(cudaEventRecord(event_, stream.get())); }
  void synchronize() const { check(cudaEventSynchronize(event_)); }
  /// Seconds from `start` to this event; both have happened.
  double seconds_since(const CudaEvent& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// What a device array holds once the stream gets there.
template <class T>
std::vector<T> copied_to_host(const T* device, std::int64_t count, const CudaStream& stream) {
  std::vector<T> host(static_cast<std::size_t>(count));
  check(cudaMemcpyAsync(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  return host;
}
template <class T>
std::vector<T> copied_to_host(const DeviceBuffer<T>& device, const CudaStream& stream) {
  return copied_to_host(device.data(), device.count(), stream);
}

inline void CudaStream::wait_for(const CudaEvent& event) const {
  check(cudaStreamWaitEvent(stream_, event.event_, cudaEventWaitDefault));
}

}  // namespace tallsketch
