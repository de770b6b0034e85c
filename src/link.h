// Link: what a message between two ranks takes. Pure data. Used by gpu_model and the scaling model.
#pragma once

namespace tallsketch {

/// Seconds that a message of `bytes` takes: latency + bytes / rate.
struct Link {
  double latency = 0;
  double rate = 1;  // bytes a second
};

}  // namespace tallsketch
