#include "kernels/sketch_cuda.h"
#include "src/cuda_handles.h"
#include "src/sketch_timing.h"

namespace tallsketch {

namespace {

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

}  // namespace

SketchTiming time_cuda_sketch(const SketchSpec& spec, std::int64_t m, std::int64_t n, int repeats) {
  const bool fp16 = spec.precision == SketchPrecision::kFp16;
  const std::int64_t pitch = (n + 3) / 4 * 4;
  const CudaStream stream;
  DeviceBuffer<float> a(m * pitch), sink(1);
  DeviceBuffer<std::uint32_t> entries(m * spec.zeta);
  DeviceBuffer<float> sketch(fp16 ? 0 : spec.d * n);
  DeviceBuffer<std::uint16_t> half_sketch(fp16 ? spec.d * pitch : 0);
  check(cuda::fill_uniform(a.data(), a.count(), stream.get()));
  std::vector<float> host_factor(static_cast<std::size_t>(pitch), 0.5F);
  DeviceBuffer<float> factor(pitch);
  check(cudaMemcpy(factor.data(), host_factor.data(), factor.bytes(), cudaMemcpyHostToDevice));
  const SlabView slab{a.data(), m, n, pitch, ElementType::kFloat32, 0};

  std::vector<double> floors, maps, clears, applies, totals;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    const double floor =
        seconds_of(stream, [&] { check(cuda::read_pass(a.data(), a.count(), sink.data(), stream.get())); });
    const double map = seconds_of(stream, [&] { check(cuda::fill_entries(spec, 0, m, entries.data(), stream.get())); });
    const double clear = seconds_of(stream, [&] {
      check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream.get()));
      check(cudaMemsetAsync(half_sketch.data(), 0, half_sketch.bytes(), stream.get()));
    });
    const double apply = seconds_of(stream, [&] {
      if (fp16) {
        check(cuda::scatter_fp16(spec, slab, entries.data(), factor.data(), {half_sketch.data(), spec.d, n, pitch},
                                 stream.get()));
      } else {
        check(cuda::scatter_fp32(spec, slab, entries.data(), {sketch.data(), spec.d, n, n}, stream.get()));
      }
    });
    if (repeat == 0) continue;  // module loading, clocks
    floors.push_back(floor);
    maps.push_back(map);
    clears.push_back(clear);
    applies.push_back(apply);
    totals.push_back(map + clear + apply);
  }
  return {median(floors), median(totals), median(maps), median(clears), median(applies)};
}

}  // namespace tallsketch
