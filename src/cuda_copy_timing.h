// The floor of what streams to a GPU: page-locked host memory copied to the device, with nothing beside it. For benchmarks.
#pragma once

#include <cstdint>

namespace tallsketch {

/// Seconds to copy so many bytes, on the current device, from a few page-locked buffers that are used in turn.
double time_pinned_copy(std::int64_t bytes);

}  // namespace tallsketch
