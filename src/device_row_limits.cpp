#include "src/device_row_limits.h"

#include "kernels/strip_plan.h"

namespace tallsketch {

namespace {

// The buffers of all lanes then stay in the processor's cache on their way: 45.9 GB/s into the sketch of a 40 GB file, where
// chunks of 64 MiB gave 38.2 and of 128 MiB 35.3 (docs/results/2026-11-30-h200/bench_io.jsonl, an earlier version).
constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20;

}  // namespace

bool is_dense_on_device(const SketchJob& job) {
  return job.encoding == plain_encoding(job.shape.a_type) &&
         cuda::device_pitch(job.shape.n, job.shape.a_type) == job.shape.n;
}

bool scales_by_data(const SketchSpec& spec, ScalingChoice scaling) {
  return spec.precision == SketchPrecision::kFp16 && scaling == ScalingChoice::kAuto;
}

PlanLimits device_row_limits(const SketchJob& job, ResidencyChoice asked) {
  constexpr auto kStages = static_cast<std::int64_t>(kDeviceStages);
  const ProblemShape& shape = job.shape;
  const std::int64_t b_bytes = shape.r * element_size(ElementType::kFloat64);
  const std::int64_t encoded = shape.n * stored_size(job.encoding.type);
  const std::int64_t kept = cuda::device_pitch(shape.n, shape.a_type) * element_size(shape.a_type) + b_bytes;
  const std::int64_t pinned = encoded + b_bytes;
  const bool passes_follow = job.refine || job.kept;
  const bool scales = job.compression == Compression::kSketch && scales_by_data(job.spec, job.scaling);
  PlanLimits limits;
  limits.asked = asked;
  limits.chunk_bytes = kChunkBytes;
  limits.source_bytes = job.source_bytes;
  limits.sketch_copies = job.sketch_copies;
  limits.kept_residency = Residency::kDevice;
  limits.kept_row_bytes = passes_follow || scales || asked == ResidencyChoice::kDevice ? kept : 0;
  limits.pinned_row_bytes = passes_follow || asked == ResidencyChoice::kHost ? pinned : 0;
  limits.kept_chunk_row_bytes = is_dense_on_device(job) ? 0 : kStages * encoded;
  limits.chunk_row_bytes = kStages * kept + limits.kept_chunk_row_bytes;
  limits.pinned_chunk_row_bytes = kDeviceLanes * pinned;
  return limits;
}

}  // namespace tallsketch
