// HostBuffer: aligned host memory for bulk data, on huge pages where the system gives them.
// Used by the host backend and the benchmarks. First touch of 4 KiB pages can be 30 times slower (platform recipes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tallsketch {

class HostBuffer {
 public:
  HostBuffer() = default;
  /// Errors: kMemory, with the size. The memory is not initialised.
  explicit HostBuffer(std::int64_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace tallsketch
