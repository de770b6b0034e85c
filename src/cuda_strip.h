// StripSketcher: the strip engine with the memory it needs, fed with any number of rows at a time.
// Made by cuda_backend and the CUDA timing; kernels/strip_engine.h does the work.
#pragma once

#include <cstdint>

#include "kernels/strip_engine.h"
#include "src/cuda_handles.h"

namespace tallsketch {

/// For planners.
cuda::DeviceLimits limits_of_current_device();

class StripSketcher {
 public:
  /// Whether the engine serves this sketch on the current device (compute capability 9.0 and a served plan). A in half
  /// precision is served where FP32 is: read as it is where the plan for its type allows, converted piecewise elsewhere.
  static bool serves(const SketchSpec& spec, std::int64_t n);
  static constexpr const char* kNeeds =
      "--kernel strip: the engine needs compute capability 9.0, fp32, d even (permuted hash) and at most 8192 "
      "(sparsestack "
      "16384 with even zeta, 32768 with a multiple of 4), zeta (kappa s) <= 16; blockperm also --hash permuted and "
      "--input-blocks interleaved";

  /// Device bytes that a sketcher will hold.
  static std::int64_t bytes(const SketchSpec& spec, std::int64_t n, std::int64_t r, std::int64_t rows, ElementType type,
                            ElementType b_type = ElementType::kFloat32);

  /// rows    of one add, usually; the entry table covers them, up to 288 MiB
  /// type    of A, any; what the engine does not read is converted piece by piece
  /// b_type  FP32, or FP64: converted too
  StripSketcher(const SketchSpec& spec, std::int64_t n, std::int64_t r, std::int64_t rows, ElementType type,
                ElementType b_type = ElementType::kFloat32);

  /// Adds S a to sketch_a and S b to sketch_b, unscaled; a and b are the same rows on the device, a of the sketcher's
  /// types, start and pitch of a aligned to 16 bytes, in half precision with finite padding.
  void add(const SlabView& a, const SlabView& b, const SketchView<float>& sketch_a, const SketchView<float>& sketch_b,
           const CudaStream& stream);

  /// Launches that share the rows of S out, each with a table of its own; above one only for d > 8192.
  int launches() const { return launches_; }
  /// The two halves of a launch of add, for a run of rows that one table covers; for benchmarks.
  void fill_table(std::int64_t first_row, std::int64_t rows, int launch, const CudaStream& stream);
  void apply(const SlabView& a, const SlabView& b, int launch, const SketchView<float>& sketch_a,
             const SketchView<float>& sketch_b, const CudaStream& stream);
  /// Rows that one table covers at least; whole batches.
  std::int64_t rows_per_table() const;

  const cuda::StripPlan& plan() const { return plan_; }

 private:
  SlabView in_type_of_plan(const SlabView& a, const CudaStream& stream);
  SlabView as_floats(const SlabView& b, const CudaStream& stream);

  SketchSpec spec_;  // of a launch
  int launches_ = 1;
  cuda::StripPlan plan_;
  cuda::DeviceLimits limits_;
  std::int64_t table_tiles_ = 0;  // tiles that the table holds
  DeviceBuffer<std::byte> table_;
  DeviceBuffer<float> partials_;
  DeviceBuffer<float> converted_;    // rows of a in FP32, where the engine does not read its type
  DeviceBuffer<float> converted_b_;  // some columns of b in FP32
};

}  // namespace tallsketch
