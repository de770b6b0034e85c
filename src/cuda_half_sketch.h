// HalfSketcher: the sketch of A accumulated in 16 bits, with its column factors, its memory and the count of what was lost.
// Made by cuda_backend for `--precision fp16` and `bf16`; kernels/scatter.cu does the work.
#pragma once

#include <cstdint>

#include "kernels/rounded_half.h"
#include "kernels/sketch_spec.h"
#include "kernels/views.h"
#include "src/cuda_handles.h"
#include "src/options.h"

namespace tallsketch {

class Communicator;

class HalfSketcher {
 public:
  /// Device bytes that a sketcher will hold, nearly.
  static std::int64_t bytes(const SketchSpec& spec, std::int64_t n);

  HalfSketcher(const SketchSpec& spec, std::int64_t n, ScalingChoice scaling, const CudaStream& stream);

  /// Whether its column factors depend on the data (scales_by_data).
  bool scales() const;
  /// First, where it scales: every row once.
  void measure(const SlabView& a, const CudaStream& stream);
  /// Collective, then: the factors of all columns, from the rows of all ranks.
  void choose_factors(const Communicator& comm, const CudaStream& stream);
  /// Then, or at once where nothing scales: adds S a diag(factor).
  /// a        (rows, n) device FP32, pitch device_pitch(n)
  /// entries  (rows, zeta) device, of the same rows
  void add(const SlabView& a, const std::uint32_t* entries, const CudaStream& stream);
  /// Last: the sketch in FP32, its factors undone: exactly, but for 1/sqrt(zeta) of `--scaling none`, which is rounded.
  void finish(const SketchView<float>& sketch, const CudaStream& stream);
  /// What add has lost so far. Waits for the stream.
  RoundingLosses losses(const CudaStream& stream) const;

 private:
  SketchView<std::uint16_t> view() const { return {sketch_.data(), spec_.d, n_, pitch_}; }
  void set_factors(const std::vector<double>& factor, const CudaStream& stream);

  SketchSpec spec_;
  std::int64_t n_, pitch_;
  ScalingChoice scaling_;
  DeviceBuffer<std::uint16_t> sketch_;  // (d, pitch)
  DeviceBuffer<float> column_max_;      // (n), where it scales
  DeviceBuffer<double> column_squares_;
  DeviceBuffer<float> factor_;    // (pitch), 0 beyond n
  DeviceBuffer<double> inverse_;  // (n)
  DeviceBuffer<RoundingLosses> losses_;
};

}  // namespace tallsketch
