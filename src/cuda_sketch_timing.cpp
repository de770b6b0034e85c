#include "kernels/sketch_cuda.h"
#include "src/cuda_handles.h"
#include "src/cuda_strip.h"
#include "src/error.h"
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

/// Seconds of one complete sketch, in its three parts.
struct Parts {
  double map = 0, clear = 0, apply = 0;
};

/// Times `once`, which adds to its Parts, beside the read pass over the same A, interleaved so that both see the same
/// clocks.
template <class F>
SketchTiming time_beside_floor(const DeviceBuffer<float>& a, std::int64_t elements, const CudaStream& stream,
                               int repeats, const char* kernel, F&& once) {
  DeviceBuffer<float> sink(1);
  std::vector<double> floors, maps, clears, applies, totals;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    const double floor =
        seconds_of(stream, [&] { check(cuda::read_pass(a.data(), elements, sink.data(), stream.get())); });
    Parts parts;
    once(parts);
    if (repeat == 0) continue;  // module loading, clocks
    floors.push_back(floor);
    maps.push_back(parts.map);
    clears.push_back(parts.clear);
    applies.push_back(parts.apply);
    totals.push_back(parts.map + parts.clear + parts.apply);
  }
  return {median(floors), median(totals), median(maps), median(clears), median(applies), kernel};
}

SketchTiming time_strip(const SketchSpec& spec, const SlabView& slab, const DeviceBuffer<float>& a, int repeats,
                        const CudaStream& stream) {
  DeviceBuffer<float> sketch(spec.d * slab.cols);
  const SketchView<float> view{sketch.data(), spec.d, slab.cols, slab.cols};
  StripSketcher sketcher(spec, slab.cols, 0, slab.rows);
  const std::int64_t step = sketcher.rows_per_table();
  return time_beside_floor(a, slab.rows * slab.cols, stream, repeats, "strip", [&](Parts& parts) {
    parts.clear = seconds_of(stream, [&] { check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream.get())); });
    for (std::int64_t begin = 0; begin < slab.rows; begin += step) {
      const std::int64_t rows = std::min(step, slab.rows - begin);
      const SlabView part{a.data() + begin * slab.pitch, rows, slab.cols, slab.pitch, slab.type, begin};
      const SlabView none{nullptr, rows, 0, 0, slab.type, begin};
      parts.map += seconds_of(stream, [&] { sketcher.fill_table(begin, rows, stream); });
      parts.apply += seconds_of(stream, [&] { sketcher.apply(part, none, view, {}, stream); });
    }
  });
}

SketchTiming time_scatter(const SketchSpec& spec, const SlabView& slab, const DeviceBuffer<float>& a, int repeats,
                          const CudaStream& stream) {
  const bool fp16 = spec.precision == SketchPrecision::kFp16;
  DeviceBuffer<std::uint32_t> entries(slab.rows * spec.zeta);
  DeviceBuffer<float> sketch(fp16 ? 0 : spec.d * slab.cols);
  DeviceBuffer<std::uint16_t> half_sketch(fp16 ? spec.d * slab.pitch : 0);
  const std::vector<float> host_factor(static_cast<std::size_t>(slab.pitch), 0.5F);
  DeviceBuffer<float> factor(slab.pitch);
  check(cudaMemcpy(factor.data(), host_factor.data(), factor.bytes(), cudaMemcpyHostToDevice));
  return time_beside_floor(a, slab.rows * slab.cols, stream, repeats, "scatter", [&](Parts& parts) {
    parts.map =
        seconds_of(stream, [&] { check(cuda::fill_entries(spec, 0, slab.rows, entries.data(), stream.get())); });
    parts.clear = seconds_of(stream, [&] {
      if (fp16) check(cudaMemsetAsync(half_sketch.data(), 0, half_sketch.bytes(), stream.get()));
      if (!fp16) check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream.get()));
    });
    parts.apply = seconds_of(stream, [&] {
      if (fp16) {
        check(cuda::scatter_fp16(spec, slab, entries.data(), factor.data(),
                                 {half_sketch.data(), spec.d, slab.cols, slab.pitch}, stream.get()));
      } else {
        check(cuda::scatter_fp32(spec, slab, entries.data(), {sketch.data(), spec.d, slab.cols, slab.cols},
                                 stream.get()));
      }
    });
  });
}

}  // namespace

SketchTiming time_cuda_sketch(const SketchSpec& spec, std::int64_t m, std::int64_t n, int repeats,
                              KernelChoice kernel) {
  const bool served = StripSketcher::serves(spec, n);
  require(served || kernel != KernelChoice::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  const std::int64_t pitch = cuda::device_pitch(n);
  const CudaStream stream;
  DeviceBuffer<float> a(m * pitch);
  check(cuda::fill_uniform(a.data(), a.count(), stream.get()));
  const SlabView slab{a.data(), m, n, pitch, ElementType::kFloat32, 0};
  if (served && kernel != KernelChoice::kScatter) return time_strip(spec, slab, a, repeats, stream);
  return time_scatter(spec, slab, a, repeats, stream);
}

}  // namespace tallsketch
