#include "src/gpu_solve_costs.h"

#include <algorithm>

#include "kernels/normal_product_plan.h"
#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"

namespace tallsketch {

namespace {

// "Floors" are read-only passes over A.
constexpr double kPassSeconds = 60e-6;      // launches and copies of a refinement pass
constexpr double kSolveSeconds = 0.15e-3;   // rank 0 between passes, at 1024 columns: triangular solves
constexpr double kSimplePass = 4;           // floors of a pass where the fused kernel does not serve
constexpr double kConversion = 1.75;        // floors: float64 rows become FP32 for the sketch: read, written, read
constexpr double kUnstagedRead = 1.6;       // floors for every nonzero of a row of S, by scatter
constexpr double kTableRead = 45;           // floors times columns: the tables of S, by the engine
constexpr double kGramRead = 1.15;          // floors of FP64 rows that the Gram matrix takes at least
constexpr double kWidening = 2;             // floors of FP64 rows: narrower ones are read and written in FP64 first
constexpr double kColumnSeconds = 1.1e-6;   // launches of Cholesky, one after the other; n = 256 ... 1024
constexpr double kReducedRest = 0.5e-3;     // of any n up to 1024, whole solves beside the terms above
constexpr double kReflectSeconds = 4.5e-6;  // the same of QR, and of x from it

/// Floors of a refinement pass.
double pass_floors(const GpuModel& gpu, const ProblemShape& shape) {
  const std::int64_t pitch = cuda::device_pitch(shape.n, shape.a_type);
  const cuda::NormalProductPlan plan =
      cuda::make_normal_product_plan(shape.n, pitch, shape.r, shape.a_type, gpu.limits, gpu.bulk_copies);
  const double launches = static_cast<double>((shape.r + plan.rhs - 1) / plan.rhs);
  if (!plan.fused) return kSimplePass * launches;
  const double by_rhs = plan.rhs == 1 ? 1.05 : plan.rhs == 2 ? 1.3 : 1.6;
  return launches * (element_size(shape.a_type) == 2 ? std::max(1.8, by_rhs) : by_rhs);
}

/// Floors of FP32 rows for a sketch, reading included.
double sketch_floors(const GpuModel& gpu, std::int64_t d, std::int64_t n) {
  SketchSpec spec;
  spec.d = round_up(d, 16 * spec.zeta);  // as make_sketch_spec does
  spec.batch_rows = batch_rows_for(spec);
  const SketchSpec share = cuda::launch_share(spec);
  const bool served = gpu.bulk_copies && cuda::make_strip_plan(share, n, gpu.limits).served;
  if (!served) return kUnstagedRead * spec.zeta;
  const double launches = static_cast<double>(spec.d) / static_cast<double>(share.d);
  const double strips = launches > 1 ? 2.8 * launches : d <= 2048 ? 1.06 : d <= 4096 ? 1.5 : 2.5;
  return strips + kTableRead / static_cast<double>(n);
}

}  // namespace

StepCosts gpu_step_costs(const GpuModel& gpu, const ProblemShape& shape, std::int64_t rows) {
  const auto n = static_cast<double>(shape.n), r = static_cast<double>(shape.r), m = static_cast<double>(rows);
  const double bytes = m * static_cast<double>(shape.a_row_bytes());
  const double read = bytes / gpu.read_rate, float_read = 4 * m * n / gpu.read_rate,
               double_read = 8 * m * n / gpu.read_rate;
  const bool converts = shape.a_type == ElementType::kFloat64;
  StepCosts costs;
  costs.file = bytes / gpu.file_rate;
  costs.upload = bytes / gpu.upload_rate;
  costs.lock = bytes / gpu.lock_rate;
  // dsyrk takes over as it gets better than dgemm, up to half its time.
  const double flops = 2 * m * n * n / std::clamp(n / 1024, 1.0, 2.0);
  costs.gram = std::max(flops / gpu.gram_rate, kGramRead * double_read) + (converts ? 0 : kWidening * double_read);
  costs.sketch = [=, columns = shape.n](std::int64_t d) {
    return float_read * sketch_floors(gpu, d, columns) + (converts ? kConversion * read : 0);
  };
  costs.pass = read * pass_floors(gpu, shape) + kPassSeconds;
  costs.gram_factor = kColumnSeconds * n + n * n * n / 3 / gpu.cholesky_rate;
  costs.sketch_factor = [=, cholesky = costs.gram_factor](std::int64_t d) {
    return 2 * static_cast<double>(d) * n * n / gpu.factor_rate + cholesky;
  };
  // 2048 x 1024, 8192 x 1024 and 8192 x 4096 took 6.0, 10.2 and 39 ms, the solve included.
  costs.sketch_qr = [=](std::int64_t d) {
    return kReflectSeconds * n + 2 * static_cast<double>(d) * n * n / (gpu.qr_rate * std::max(1.0, n / 1024));
  };
  costs.reduced_rest = kReducedRest;
  costs.between_passes = r * kSolveSeconds * (n / 1024) * (n / 1024);
  return costs;
}

SolveCosts gpu_solve_costs(const GpuModel& gpu, const ProblemShape& shape, std::int64_t rows, RowPlace place) {
  const StepCosts steps = gpu_step_costs(gpu, shape, rows);
  SolveCosts costs;
  costs.pass = steps.pass + steps.between_passes;
  const double from_file = std::max(steps.upload, steps.file);
  if (!place.read) costs.read = from_file;
  if (place.residency == Residency::kHost) costs.pass = std::max(costs.pass, steps.upload);
  if (place.residency == Residency::kFile) costs.pass = std::max(costs.pass, from_file);
  // Rows that come from the file are worked on while the next ones are on their way.
  const auto beside_reading = [read = costs.read](double seconds) { return std::max(0.0, seconds - read); };
  costs.gram = beside_reading(steps.gram) + (steps.pass - kPassSeconds) + steps.gram_factor;
  costs.sketch = [=](std::int64_t d) { return beside_reading(steps.sketch(d)) + steps.sketch_factor(d); };
  return costs;
}

}  // namespace tallsketch
