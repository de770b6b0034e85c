// How the CUDA benchmarks take times: device seconds of the parts of a sketch, beside the read floor of the same run.
// Included by src/cuda_*_timing.cpp and cuda_backend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/sketch_cuda.h"
#include "src/cuda_handles.h"
#include "src/sketch_timing.h"

namespace tallsketch {

/// Seconds of one complete sketch, in its parts, one after the other.
struct Parts {
  double clear = 0, map = 0, apply = 0;
  double preprocess = 0;  // of a library, part of map
  double complete = 0;    // from the first part's start to the last one's end
};

/// Puts the parts on the stream one behind the other, as a solve does, and takes their times afterwards: a launch that
/// waits for the host between parts would count as work.
class PartsTimer {
 public:
  explicit PartsTimer(const CudaStream& stream) : stream_(stream) {}

  /// part  &Parts::map and so on; its times add up
  template <class F>
  void time(double Parts::*part, F&& work) {
    spans_.push_back(std::make_unique<Span>());
    Span& span = *spans_.back();
    span.part = part;
    span.start.record(stream_);
    work();
    span.end.record(stream_);
  }

  /// Waits for all parts.
  Parts finish() const {
    Parts parts;
    spans_.back()->end.synchronize();
    for (const auto& span : spans_) parts.*(span->part) += span->end.seconds_since(span->start);
    parts.map += parts.preprocess;
    parts.complete = spans_.back()->end.seconds_since(spans_.front()->start);
    return parts;
  }

 private:
  struct Span {
    double Parts::*part = nullptr;
    CudaEvent start, end;
  };
  const CudaStream& stream_;
  std::vector<std::unique_ptr<Span>> spans_;
};

/// Times the parts that `once` puts into its PartsTimer beside the read pass over the same A, interleaved so that both
/// see the same clocks.
template <class F>
SketchTiming time_beside_floor(const SlabView& slab, const CudaStream& stream, int repeats, const char* kernel,
                               F&& once) {
  DeviceBuffer<float> sink(1);
  std::vector<double> floors, maps, clears, applies, preprocesses, totals;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    PartsTimer floor(stream), sketch(stream);
    floor.time(&Parts::apply, [&] {
      const std::int64_t bytes = slab.rows * slab.cols * element_size(slab.type);
      check(cuda::read_pass(static_cast<const float*>(slab.data), bytes / 4, sink.data(), stream.get()));
    });
    once(sketch);
    const Parts parts = sketch.finish();
    if (repeat == 0) continue;  // module loading, clocks, work space of libraries
    floors.push_back(floor.finish().complete);
    maps.push_back(parts.map);
    clears.push_back(parts.clear);
    applies.push_back(parts.apply);
    preprocesses.push_back(parts.preprocess);
    totals.push_back(parts.complete);
  }
  SketchTiming timing{median(floors), median(totals), median(maps), median(clears), median(applies), kernel, {}};
  if (const double preprocess = median(preprocesses); preprocess > 0) timing.preprocess = preprocess;
  return timing;
}

/// Seconds of a read-only pass over as many bytes as the rows have without padding; median.
inline double read_floor_of(const SlabView& a, int repeats, const CudaStream& stream) {
  DeviceBuffer<float> sink(1);
  std::vector<double> seconds;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    CudaEvent start, end;
    start.record(stream);
    check(cuda::read_pass(static_cast<const float*>(a.data), a.rows * a.cols * element_size(a.type) / 4, sink.data(),
                          stream.get()));
    end.record(stream);
    end.synchronize();
    if (repeat > 0) seconds.push_back(end.seconds_since(start));  // the first loads the kernel
  }
  return median(seconds);
}

}  // namespace tallsketch
