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
SketchTiming time_beside_floor(const SlabView& slab, const CudaStream& stream, int repeats, const char* kernel,
                               F&& once) {
  DeviceBuffer<float> sink(1);
  std::vector<double> floors, maps, clears, applies, totals;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    const double floor = seconds_of(stream, [&] {
      const std::int64_t bytes = slab.rows * slab.cols * element_size(slab.type);
      check(cuda::read_pass(static_cast<const float*>(slab.data), bytes / 4, sink.data(), stream.get()));
    });
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

SketchTiming time_strip(const SketchSpec& spec, const SlabView& slab, const SlabView& b, int repeats,
                        const CudaStream& stream) {
  const std::int64_t cols = slab.cols + b.cols;
  DeviceBuffer<float> sketch(spec.d * cols);
  const SketchView<float> of_a{sketch.data(), spec.d, slab.cols, cols};
  const SketchView<float> of_b{sketch.data() + slab.cols, spec.d, b.cols, cols};
  StripSketcher sketcher(spec, slab.cols, b.cols, slab.rows, slab.type);
  const std::int64_t step = sketcher.rows_per_table();
  return time_beside_floor(slab, stream, repeats, "strip", [&](Parts& parts) {
    parts.clear = seconds_of(stream, [&] { check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream.get())); });
    for (std::int64_t begin = 0; begin < slab.rows; begin += step) {
      const std::int64_t rows = std::min(step, slab.rows - begin);
      parts.map += seconds_of(stream, [&] { sketcher.fill_table(begin, rows, stream); });
      parts.apply += seconds_of(
          stream, [&] { sketcher.apply(rows_of(slab, begin, rows), rows_of(b, begin, rows), of_a, of_b, stream); });
    }
  });
}

SketchTiming time_scatter(const SketchSpec& spec, const SlabView& slab, const SlabView& b, int repeats,
                          const CudaStream& stream) {
  const bool half = is_half(spec.precision);
  DeviceBuffer<std::uint32_t> entries(slab.rows * spec.zeta);
  DeviceBuffer<float> sketch(half ? 0 : spec.d * slab.cols), sketch_of_b(spec.d * b.cols);
  DeviceBuffer<std::uint16_t> half_sketch(half ? spec.d * slab.pitch : 0);
  const std::vector<float> host_factor(static_cast<std::size_t>(slab.pitch), 0.5F);
  DeviceBuffer<float> factor(slab.pitch);
  DeviceBuffer<RoundingLosses> losses(1);
  check(cudaMemset(losses.data(), 0, losses.bytes()));
  check(cudaMemcpy(factor.data(), host_factor.data(), factor.bytes(), cudaMemcpyHostToDevice));
  return time_beside_floor(slab, stream, repeats, "scatter", [&](Parts& parts) {
    parts.map =
        seconds_of(stream, [&] { check(cuda::fill_entries(spec, 0, slab.rows, entries.data(), stream.get())); });
    parts.clear = seconds_of(stream, [&] {
      if (half) check(cudaMemsetAsync(half_sketch.data(), 0, half_sketch.bytes(), stream.get()));
      if (!half) check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream.get()));
    });
    parts.apply = seconds_of(stream, [&] {
      if (half) {
        check(cuda::scatter_half(spec, slab, entries.data(), factor.data(),
                                 {half_sketch.data(), spec.d, slab.cols, slab.pitch}, losses.data(), stream.get()));
      } else {
        check(cuda::scatter_fp32(spec, slab, entries.data(), {sketch.data(), spec.d, slab.cols, slab.cols},
                                 stream.get()));
      }
      check(cuda::scatter_fp32_narrow(spec, b, entries.data(), {sketch_of_b.data(), spec.d, b.cols, b.cols},
                                      stream.get()));
    });
  });
}

}  // namespace

SketchTiming time_cuda_sketch(const SketchSpec& spec, const TimedShape& shape, int repeats, KernelChoice kernel) {
  const auto [m, n, r, type] = shape;
  const bool served = StripSketcher::serves(spec, n);
  require(served || kernel != KernelChoice::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  const bool strip = served && kernel != KernelChoice::kScatter;
  require(strip || type == ElementType::kFloat32, ErrorKind::kUsage,
          "--dtype f2 and bf2 need the strip engine: scatter kernels read FP32");
  const std::int64_t pitch = cuda::device_pitch(n, type);
  const CudaStream stream;
  DeviceBuffer<std::byte> a(m * pitch * element_size(type));
  check(cuda::fill_uniform(a.data(), m * pitch, type, stream.get()));
  const SlabView slab{a.data(), m, n, pitch, type, 0};
  DeviceBuffer<float> b(m * r);
  check(cuda::fill_uniform(b.data(), b.count(), ElementType::kFloat32, stream.get()));
  const SlabView b_slab{b.data(), m, r, r, ElementType::kFloat32, 0};
  if (strip) return time_strip(spec, slab, b_slab, repeats, stream);
  return time_scatter(spec, slab, b_slab, repeats, stream);
}

}  // namespace tallsketch
