#include "kernels/flash.h"
#include "kernels/sketch_cuda.h"
#include "src/cuda_baselines.h"
#include "src/cuda_flash.h"
#include "src/cuda_strip.h"
#include "src/cuda_timing.h"
#include "src/error.h"
#include "src/sketch_timing.h"

namespace tallsketch {

namespace {

template <class T>
void clear(const DeviceBuffer<T>& sketch, const CudaStream& stream) {
  if (sketch.count() > 0) check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream.get()));
}

SketchTiming time_strip(const SketchSpec& spec, const SlabView& slab, const SlabView& b, int repeats,
                        const CudaStream& stream) {
  const std::int64_t cols = slab.cols + b.cols;
  DeviceBuffer<float> sketch(spec.d * cols);
  const SketchView<float> of_a{sketch.data(), spec.d, slab.cols, cols};
  const SketchView<float> of_b{sketch.data() + slab.cols, spec.d, b.cols, cols};
  StripSketcher sketcher(spec, slab.cols, b.cols, slab.rows, slab.type);
  const std::int64_t step = sketcher.rows_per_table();
  return time_beside_floor(slab, stream, repeats, "strip", [&](PartsTimer& parts) {
    parts.time(&Parts::clear, [&] { clear(sketch, stream); });
    for (std::int64_t begin = 0; begin < slab.rows; begin += step) {
      const std::int64_t rows = std::min(step, slab.rows - begin);
      for (int launch = 0; launch < sketcher.launches(); ++launch) {
        parts.time(&Parts::map, [&] { sketcher.fill_table(begin, rows, launch, stream); });
        parts.time(&Parts::apply, [&] {
          sketcher.apply(rows_of(slab, begin, rows), rows_of(b, begin, rows), launch, of_a, of_b, stream);
        });
      }
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
  return time_beside_floor(slab, stream, repeats, "scatter", [&](PartsTimer& parts) {
    parts.time(&Parts::map, [&] { check(cuda::fill_entries(spec, 0, slab.rows, entries.data(), stream.get())); });
    parts.time(&Parts::clear, [&] {
      clear(half_sketch, stream);
      clear(sketch, stream);
      clear(sketch_of_b, stream);
    });
    parts.time(&Parts::apply, [&] {
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

/// Of A in any type.
SketchTiming time_scatter_fp64(const SketchSpec& spec, const SlabView& slab, const SlabView& b, int repeats,
                               const CudaStream& stream) {
  DeviceBuffer<std::uint32_t> entries(slab.rows * spec.zeta);
  DeviceBuffer<double> sketch(spec.d * slab.cols), sketch_of_b(spec.d * b.cols);
  return time_beside_floor(slab, stream, repeats, "scatter", [&](PartsTimer& parts) {
    parts.time(&Parts::map, [&] { check(cuda::fill_entries(spec, 0, slab.rows, entries.data(), stream.get())); });
    parts.time(&Parts::clear, [&] {
      clear(sketch, stream);
      clear(sketch_of_b, stream);
    });
    parts.time(&Parts::apply, [&] {
      check(
          cuda::scatter_fp64(spec, slab, entries.data(), {sketch.data(), spec.d, slab.cols, slab.cols}, stream.get()));
      check(cuda::scatter_fp64(spec, b, entries.data(), {sketch_of_b.data(), spec.d, b.cols, b.cols}, stream.get()));
    });
  });
}

SketchTiming time_flash(const SketchSpec& spec, const SlabView& slab, const SlabView& b, int repeats,
                        const CudaStream& stream) {
  require_flash(spec);
  DeviceBuffer<std::uint32_t> entries(slab.rows * spec.zeta);
  DeviceBuffer<float> sketch(spec.d * slab.cols), sketch_of_b(spec.d * b.cols);
  return time_beside_floor(slab, stream, repeats, "flash", [&](PartsTimer& parts) {
    parts.time(&Parts::map, [&] { check(cuda::fill_entries(spec, 0, slab.rows, entries.data(), stream.get())); });
    parts.time(&Parts::clear, [&] {
      clear(sketch, stream);
      clear(sketch_of_b, stream);
    });
    parts.time(&Parts::apply, [&] {
      check(cuda::flash_fp32(spec, slab, entries.data(), {sketch.data(), spec.d, slab.cols, slab.cols}, stream.get()));
      check(cuda::scatter_fp32_narrow(spec, b, entries.data(), {sketch_of_b.data(), spec.d, b.cols, b.cols},
                                      stream.get()));
    });
  });
}

SketchTiming time_block_row(const SketchSpec& spec, const SlabView& slab, int repeats, const CudaStream& stream) {
  const BlockRowSpec rule{spec.seed, slab.rows, spec.d, spec.kappa, spec.block_nnz};
  DeviceBuffer<float> sketch(spec.d * slab.cols);
  return time_beside_floor(slab, stream, repeats, "blockrow", [&](PartsTimer& parts) {
    parts.time(&Parts::apply, [&] {
      check(cuda::flash_block_row(rule, slab, {sketch.data(), spec.d, slab.cols, slab.cols}, stream.get()));
    });
  });
}

SketchTiming time_spmm(const SketchSpec& spec, const SlabView& slab, int repeats, const CudaStream& stream) {
  DeviceBuffer<float> sketch(spec.d * slab.cols);
  SpmmSketcher sketcher(spec, slab, {sketch.data(), spec.d, slab.cols, slab.cols});
  return time_beside_floor(slab, stream, repeats, "spmm", [&](PartsTimer& parts) {
    parts.time(&Parts::map, [&] { sketcher.build(stream); });
    parts.time(&Parts::preprocess, [&] { sketcher.preprocess(stream); });
    parts.time(&Parts::apply, [&] { sketcher.apply(stream); });
  });
}

SketchTiming time_gaussian(const SketchSpec& spec, const SlabView& slab, int repeats, const CudaStream& stream) {
  DeviceBuffer<float> sketch(spec.d * slab.cols);
  GaussianSketcher sketcher(spec.seed, spec.d);
  return time_beside_floor(slab, stream, repeats, "gaussian", [&](PartsTimer& parts) {
    for (std::int64_t begin = 0; begin < slab.rows; begin += sketcher.rows_per_slab()) {
      const std::int64_t rows = std::min(sketcher.rows_per_slab(), slab.rows - begin);
      parts.time(&Parts::map, [&] { sketcher.generate(begin, rows, stream); });
      parts.time(&Parts::apply, [&] {
        sketcher.multiply(rows_of(slab, begin, rows), {sketch.data(), spec.d, slab.cols, slab.cols}, stream);
      });
    }
  });
}

}  // namespace

SketchTiming time_cuda_sketch(const SketchCase& timed, int repeats) {
  const auto [m, n, r, type] = timed.shape;
  const SketchSpec& spec = timed.spec;
  const bool served = timed.family != BenchFamily::kFlashBlockRow && StripSketcher::serves(spec, n);
  const bool strip = served && (timed.kernel == BenchKernel::kAuto || timed.kernel == BenchKernel::kStrip);
  require(strip || timed.kernel != BenchKernel::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  const bool fp64 = spec.precision == SketchPrecision::kFp64;
  require(strip || fp64 || type == ElementType::kFloat32, ErrorKind::kUsage,
          "--dtype f2 and bf2 need the strip engine or --precision fp64: the other kernels read FP32");
  const std::int64_t pitch = cuda::device_pitch(n, type);
  const CudaStream stream;
  DeviceBuffer<std::byte> a(m * pitch * element_size(type));
  check(cuda::fill_uniform(a.data(), m * pitch, type, stream.get()));
  const SlabView slab{a.data(), m, n, pitch, type, 0};
  DeviceBuffer<float> b(m * r);
  check(cuda::fill_uniform(b.data(), b.count(), ElementType::kFloat32, stream.get()));
  const SlabView b_slab{b.data(), m, r, r, ElementType::kFloat32, 0};

  if (strip) return time_strip(spec, slab, b_slab, repeats, stream);
  if (timed.kernel == BenchKernel::kSpmm) return time_spmm(spec, slab, repeats, stream);
  if (timed.kernel == BenchKernel::kGaussian) return time_gaussian(spec, slab, repeats, stream);
  if (timed.kernel == BenchKernel::kFlash) return time_flash(spec, slab, b_slab, repeats, stream);
  if (timed.family == BenchFamily::kFlashBlockRow) return time_block_row(spec, slab, repeats, stream);
  if (fp64) return time_scatter_fp64(spec, slab, b_slab, repeats, stream);
  return time_scatter(spec, slab, b_slab, repeats, stream);
}

}  // namespace tallsketch
