#include "src/large_pages.h"

#include <cstdint>

#include <sys/mman.h>

#include "kernels/rounding.h"

namespace tallsketch {

std::vector<double> zeros_in_large_pages(std::int64_t count) {
  constexpr std::int64_t kPage = 4096;
  std::vector<double> zeros;
  zeros.reserve(static_cast<std::size_t>(count));
  const auto begin = round_up(reinterpret_cast<std::intptr_t>(zeros.data()), kPage);
  const auto end = reinterpret_cast<std::intptr_t>(zeros.data() + count) / kPage * kPage;
  // Advice: where it is not taken, nothing is lost.
  if (end > begin) madvise(reinterpret_cast<void*>(begin), static_cast<std::size_t>(end - begin), MADV_HUGEPAGE);
  zeros.resize(static_cast<std::size_t>(count));
  return zeros;
}

}  // namespace tallsketch
