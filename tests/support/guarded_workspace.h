// GuardedWorkspace: memory for a running host kernel, 64-byte aligned and full of NaN, with a guard behind it that shows
// writes beyond its end. Called by sketch_host_test and normal_product_host_test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tallsketch {

/// Handle: host::SketchWorkspace or host::NormalWorkspace.
template <class Handle>
class GuardedWorkspace {
 public:
  /// bytes  that the kernel asks for with n, r and threads
  GuardedWorkspace(std::int64_t bytes, std::int64_t n, std::int64_t r, int threads)
      : bytes_(bytes), storage_(static_cast<std::size_t>(bytes + kGuard + 64), std::byte{0xff}) {
    void* start = storage_.data();
    std::size_t space = storage_.size();
    start_ = static_cast<std::byte*>(std::align(64, static_cast<std::size_t>(bytes + kGuard), start, space));
    handle = {start_, bytes, n, r, threads};
  }
  bool guard_is_whole() const {
    return std::all_of(start_ + bytes_, start_ + bytes_ + kGuard, [](std::byte b) { return b == std::byte{0xff}; });
  }
  Handle handle;

 private:
  static constexpr std::int64_t kGuard = 4096;
  std::int64_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* start_ = nullptr;
};

}  // namespace tallsketch
