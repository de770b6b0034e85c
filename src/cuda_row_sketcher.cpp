#include "src/cuda_row_sketcher.h"

#include <algorithm>

#include "kernels/flash.h"
#include "kernels/sketch_cuda.h"
#include "src/cuda_flash.h"
#include "src/error.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kEntryRows = std::int64_t{1} << 20;       // rows whose entries of S exist at a time
constexpr std::int64_t kConvertedBytes = std::int64_t{1} << 30;  // of rows in FP32

bool uses_strip(const SketchSpec& spec, std::int64_t n, KernelChoice kernel) {
  return (kernel == KernelChoice::kAuto || kernel == KernelChoice::kStrip) && StripSketcher::serves(spec, n);
}

bool reads_floats(const SketchSpec& spec) { return spec.precision != SketchPrecision::kFp64; }

/// What scatter kernels need for some rows: entries of S, and FP32 copies.
struct Pieces {
  std::int64_t rows = 0, entries = 0, floats_of_a = 0, floats_of_b = 0;
};

Pieces pieces_of(const SketchSpec& spec, const ProblemShape& shape, std::int64_t rows) {
  const std::int64_t pitch = cuda::device_pitch(shape.n);
  const bool converts = reads_floats(spec) && shape.a_type != ElementType::kFloat32;
  Pieces pieces;
  pieces.rows = std::max<std::int64_t>(1, std::min(rows, kEntryRows));
  if (converts) pieces.rows = std::max<std::int64_t>(1, std::min(pieces.rows, kConvertedBytes / (pitch * 4)));
  pieces.entries = pieces.rows * spec.zeta;
  pieces.floats_of_a = converts ? pieces.rows * pitch : 0;
  pieces.floats_of_b = reads_floats(spec) ? pieces.rows * shape.r : 0;
  return pieces;
}

}  // namespace

std::int64_t RowSketcher::bytes(const SketchSpec& spec, const ProblemShape& shape, std::int64_t rows,
                                KernelChoice kernel) {
  if (uses_strip(spec, shape.n, kernel)) {
    return StripSketcher::bytes(spec, shape.n, shape.r, rows, shape.a_type, ElementType::kFloat64);
  }
  const Pieces pieces = pieces_of(spec, shape, rows);
  const std::int64_t half_sketch = is_half(spec.precision) ? HalfSketcher::bytes(spec, shape.n) : 0;
  return 4 * (pieces.entries + pieces.floats_of_a + pieces.floats_of_b) + half_sketch;
}

RowSketcher::RowSketcher(const SketchJob& job, std::int64_t rows, KernelChoice kernel, const AnySketch& sketch,
                         const CudaStream& stream)
    : spec_(job.spec), n_(job.shape.n), r_(job.shape.r), kernel_(kernel), sketch_(sketch), stream_(stream) {
  const bool strip = uses_strip(spec_, n_, kernel);
  require(strip || kernel != KernelChoice::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  if (kernel == KernelChoice::kFlash) require_flash(spec_);
  if (strip) {
    strip_.emplace(spec_, n_, r_, std::max<std::int64_t>(1, rows), job.shape.a_type, ElementType::kFloat64);
    return;
  }
  const Pieces pieces = pieces_of(spec_, job.shape, rows);
  piece_rows_ = pieces.rows;
  entries_ = DeviceBuffer<std::uint32_t>(pieces.entries);
  float_a_ = DeviceBuffer<float>(pieces.floats_of_a);
  float_b_ = DeviceBuffer<float>(pieces.floats_of_b);
  if (is_half(spec_.precision)) half_.emplace(spec_, n_, job.scaling, stream_);
}

SketchView<float> RowSketcher::sketch_of_a() const {
  const SketchView<float>& all = std::get<SketchView<float>>(sketch_);
  return {all.data, all.rows, n_, all.pitch};
}
SketchView<float> RowSketcher::sketch_of_b() const {
  const SketchView<float>& all = std::get<SketchView<float>>(sketch_);
  return {all.data + n_, all.rows, r_, all.pitch};
}

/// The rows in FP32: themselves, or their copy.
SlabView RowSketcher::as_floats(const SlabView& slab, std::int64_t pitch, const DeviceBuffer<float>& copy) const {
  if (slab.type == ElementType::kFloat32) return slab;
  check(cuda::convert_to_float(slab, copy.data(), pitch, stream_.get()));
  return {copy.data(), slab.rows, slab.cols, pitch, ElementType::kFloat32, slab.first_row};
}

void RowSketcher::measure(const SlabView& a) {
  for (std::int64_t done = 0; done < a.rows; done += piece_rows_) {
    const SlabView part = rows_of(a, done, std::min(piece_rows_, a.rows - done));
    half_->measure(as_floats(part, cuda::device_pitch(n_), float_a_), stream_);
  }
}

void RowSketcher::add(const RowsOnDevice& rows) {
  const auto& [a, b] = rows;
  if (strip_) {
    strip_->add(a, b, sketch_of_a(), sketch_of_b(), stream_);
    return;
  }
  for (std::int64_t done = 0; done < a.rows; done += piece_rows_) {
    const std::int64_t count = std::min(piece_rows_, a.rows - done);
    scatter(rows_of(a, done, count), rows_of(b, done, count));
  }
}

void RowSketcher::scatter(const SlabView& a, const SlabView& b) {
  const cudaStream_t stream = stream_.get();
  check(cuda::fill_entries(spec_, a.first_row, a.rows, entries_.data(), stream));
  if (!reads_floats(spec_)) {
    const SketchView<double>& all = std::get<SketchView<double>>(sketch_);
    check(cuda::scatter_fp64(spec_, a, entries_.data(), {all.data, all.rows, n_, all.pitch}, stream));
    check(cuda::scatter_fp64(spec_, b, entries_.data(), {all.data + n_, all.rows, r_, all.pitch}, stream));
    return;
  }
  scatter_a(as_floats(a, cuda::device_pitch(n_), float_a_));
  check(cuda::scatter_fp32_narrow(spec_, as_floats(b, r_, float_b_), entries_.data(), sketch_of_b(), stream));
}

/// a  in FP32
void RowSketcher::scatter_a(const SlabView& a) {
  const cudaStream_t stream = stream_.get();
  if (half_) {
    half_->add(a, entries_.data(), stream_);
  } else if (kernel_ == KernelChoice::kFlash) {
    check(cuda::flash_fp32(spec_, a, entries_.data(), sketch_of_a(), stream));
  } else {
    check(cuda::scatter_fp32(spec_, a, entries_.data(), sketch_of_a(), stream));
  }
}

void RowSketcher::finish() {
  if (half_) half_->finish(sketch_of_a(), stream_);
}

}  // namespace tallsketch
