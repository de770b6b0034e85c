// An entry of S as 32 bits: the sketch row, and the sign in bit 31. What fill_entries writes (kernels/sketch_cuda.h).
// Used by the kernels that walk the entries of rows. Device and host.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace tallsketch {

inline constexpr std::uint32_t kEntrySign = 0x80000000U;

TALLSKETCH_HOST_DEVICE std::uint32_t entry_row(std::uint32_t entry) { return entry & ~kEntrySign; }

/// value, or -value where the entry is negative.
TALLSKETCH_HOST_DEVICE float with_sign(float value, std::uint32_t entry) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  bits ^= entry & kEntrySign;
  memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace tallsketch
