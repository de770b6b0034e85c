// Large vectors whose memory is new: in pages of 2 MiB where the system gives them. A fault for every 4 KiB costs up to
// 2 us on a virtual machine: 19 ms for a triangle of 2048 columns, ten times its factorisation on a GPU.
// Called by upper_triangle.
#pragma once

#include <cstdint>
#include <vector>

namespace tallsketch {

std::vector<double> zeros_in_large_pages(std::int64_t count);

}  // namespace tallsketch
