// Device memory for tests: copies to and from the host, zeros, and the entries of S of some rows.
// Called by the cuda tests.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sketch_cuda.h"
#include "src/cuda_handles.h"

namespace tallsketch {

template <class T>
DeviceBuffer<T> to_device(const std::vector<T>& host) {
  DeviceBuffer<T> device(static_cast<std::int64_t>(host.size()));
  if (!host.empty()) check(cudaMemcpy(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice));
  return device;
}

template <class T>
std::vector<T> to_host(const DeviceBuffer<T>& device) {
  std::vector<T> host(static_cast<std::size_t>(device.count()));
  if (!host.empty()) check(cudaMemcpy(host.data(), device.data(), device.bytes(), cudaMemcpyDeviceToHost));
  return host;
}

template <class T>
DeviceBuffer<T> zeros(std::int64_t count) {
  DeviceBuffer<T> device(count);
  check(cudaMemset(device.data(), 0, device.bytes()));
  return device;
}

inline DeviceBuffer<std::uint32_t> entries_of(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows) {
  DeviceBuffer<std::uint32_t> entries(rows * spec.zeta);
  check(cuda::fill_entries(spec, first_row, rows, entries.data(), nullptr));
  check(cudaDeviceSynchronize());
  return entries;
}

}  // namespace tallsketch
