// RowSketcher: S times rows that lie on the device, by the kernel that serves the sketch, converted where it reads another
// type. Made by cuda_backend for every job with a sketch.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "src/backend.h"
#include "src/cuda_half_sketch.h"
#include "src/cuda_handles.h"
#include "src/cuda_rows.h"
#include "src/cuda_strip.h"

namespace tallsketch {

/// The sketch of [A | b], (d, n + r) row-major, in FP64 for --precision fp64 and in FP32 for all others.
using AnySketch = std::variant<SketchView<float>, SketchView<double>>;

class RowSketcher {
 public:
  /// Device bytes that a sketcher of `rows` rows at a time will hold.
  static std::int64_t bytes(const SketchSpec& spec, const ProblemShape& shape, std::int64_t rows, KernelChoice kernel);

  /// rows    of one add, usually
  /// sketch  added to; the caller zeroes it once
  /// Errors  kUsage where the kernel does not apply the sketch
  RowSketcher(const SketchJob& job, std::int64_t rows, KernelChoice kernel, const AnySketch& sketch,
              const CudaStream& stream);

  /// Whether the 16-bit sketch has column factors that depend on the data, so that all rows are measured before one is
  /// added.
  bool scales() const { return half_ && half_->scales(); }
  void measure(const SlabView& a);
  /// Collective, then.
  void choose_factors(const Communicator& comm) { half_->choose_factors(comm, stream_); }
  void add(const RowsOnDevice& rows);
  /// After the last row.
  void finish();
  RoundingLosses losses() const { return half_ ? half_->losses(stream_) : RoundingLosses{}; }

 private:
  SlabView as_floats(const SlabView& slab, std::int64_t pitch, const DeviceBuffer<float>& copy) const;
  void scatter(const SlabView& a, const SlabView& b);
  void scatter_a(const SlabView& a);
  SketchView<float> sketch_of_a() const;
  SketchView<float> sketch_of_b() const;

  SketchSpec spec_;
  std::int64_t n_, r_;
  KernelChoice kernel_;
  AnySketch sketch_;
  const CudaStream& stream_;
  std::int64_t piece_rows_ = 0;            // without the engine: rows converted and scattered at a time
  DeviceBuffer<std::uint32_t> entries_;    // (piece_rows, zeta)
  DeviceBuffer<float> float_a_, float_b_;  // (piece_rows, pitch), (piece_rows, r), where they are not FP32
  std::optional<StripSketcher> strip_;     // the engine, where it serves the sketch
  std::optional<HalfSketcher> half_;       // the sketch of A in 16 bits, where that was asked for
};

}  // namespace tallsketch
