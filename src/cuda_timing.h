// How the CUDA benchmarks take times: device seconds of the parts of a sketch, beside the read floor of the same run.
// Included by src/cuda_sketch_timing.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sketch_cuda.h"
#include "src/cuda_handles.h"
#include "src/sketch_timing.h"

namespace tallsketch {

/// Device seconds of the work that f puts on the stream.
template <class F>
double seconds_of(const CudaStream& stream, F&& f) {
  CudaEvent start, end;
  start.record(stream);
  f();
  end.record(stream);
  end.synchronize();
  return end.seconds_since(start);
}

/// Seconds of one complete sketch, in its parts.
struct Parts {
  double map = 0, clear = 0, apply = 0;
  double preprocess = 0;  // part of map
};

/// Times `once`, which adds to its Parts, beside the read pass over the same A, interleaved so that both see the same
/// clocks.
template <class F>
SketchTiming time_beside_floor(const SlabView& slab, const CudaStream& stream, int repeats, const char* kernel,
                               F&& once) {
  DeviceBuffer<float> sink(1);
  std::vector<double> floors, maps, clears, applies, preprocesses, totals;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    const double floor = seconds_of(stream, [&] {
      const std::int64_t bytes = slab.rows * slab.cols * element_size(slab.type);
      check(cuda::read_pass(static_cast<const float*>(slab.data), bytes / 4, sink.data(), stream.get()));
    });
    Parts parts;
    once(parts);
    if (repeat == 0) continue;  // module loading, clocks, work space of libraries
    floors.push_back(floor);
    maps.push_back(parts.map);
    clears.push_back(parts.clear);
    applies.push_back(parts.apply);
    preprocesses.push_back(parts.preprocess);
    totals.push_back(parts.map + parts.clear + parts.apply);
  }
  SketchTiming timing{median(floors), median(totals), median(maps), median(clears), median(applies), kernel, {}};
  if (const double preprocess = median(preprocesses); preprocess > 0) timing.preprocess = preprocess;
  return timing;
}

}  // namespace tallsketch
