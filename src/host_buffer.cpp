#include "src/host_buffer.h"

#include <cstdlib>

#include <fmt/format.h>
#include <sys/mman.h>

#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

HostBuffer::HostBuffer(std::int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  const std::int64_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const std::int64_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(rounded));
  require(p != nullptr, ErrorKind::kMemory,
          fmt::format("out of host memory: could not allocate {}; use more ranks, fewer --chunk-rows or a smaller "
                      "--oversample",
                      bytes_text(bytes)));
  if (alignment == kHugePage) ::madvise(p, static_cast<std::size_t>(rounded), MADV_HUGEPAGE);
  data_.reset(static_cast<std::byte*>(p));
}

void HostBuffer::Free::operator()(std::byte* p) const { std::free(p); }

}  // namespace tallsketch
