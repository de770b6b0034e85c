// An entry of S as 32 bits: a row, of the sketch or of A, and the sign in bit 31. What fill_entries (sketch_cuda.h) and
// the host's tables (entry_table_host.h) hold. Used by all who read or write them. Device and host.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace tallsketch {

inline constexpr std::uint32_t kEntrySign = 0x80000000U;

TALLSKETCH_HOST_DEVICE std::uint32_t entry_row(std::uint32_t entry) { return entry & ~kEntrySign; }

/// value, or -value where the entry is negative; for T{1} the sign itself.
TALLSKETCH_HOST_DEVICE float with_sign(float value, std::uint32_t entry) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  bits ^= entry & kEntrySign;
  memcpy(&value, &bits, sizeof bits);
  return value;
}
TALLSKETCH_HOST_DEVICE double with_sign(double value, std::uint32_t entry) {
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  bits ^= std::uint64_t{entry & kEntrySign} << 32;
  memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace tallsketch
