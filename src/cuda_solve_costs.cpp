#include "src/cuda_solve_costs.h"

#include <algorithm>

#include "kernels/normal_product_plan.h"
#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "kernels/strip_engine.h"
#include "src/cuda_handles.h"
#include "src/cuda_strip.h"

namespace tallsketch {

namespace {

// An H200. "Floors" are read-only passes over A.
constexpr double kReadBytes = 4.55e12;     // a second, where the device does not tell its memory's clock
constexpr double kReadShare = 0.925;       // of the bandwidth on paper
constexpr double kHostBytes = 53e9;        // over PCIe, from page-locked memory
constexpr double kFileBytes = 10e9;        // assumed: from the page cache it was 40e9, from disks and by HDF5 less
constexpr double kPassSeconds = 60e-6;     // launches and copies of a refinement pass
constexpr double kSolveSeconds = 0.15e-3;  // rank 0 between passes, at 1024 columns: triangular solves
constexpr double kSimplePass = 4;          // floors of a pass where the fused kernel does not serve
constexpr double kConversion = 1.75;       // floors: float64 rows become FP32 for the sketch: read, written, read
constexpr double kUnstagedRead = 1.6;      // floors for every nonzero of a row of S, by scatter
constexpr double kTableRead = 45;          // floors times columns: the tables of S, by the engine
constexpr double kGramFlops = 62e12;       // FP64
constexpr double kGramRead = 1.15;         // floors of FP64 rows that it takes at least
constexpr double kWidening = 2;            // floors of FP64 rows: narrower ones are read and written in FP64 first
constexpr double kFactorFlops = 5.4e13;    // FP64 Gram matrix of the sketch

/// Bytes a second that a kernel reads.
double read_rate() {
  int device = 0, clock = 0, width = 0;  // kHz, bits
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, device));
  check(cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, device));
  if (clock <= 0 || width <= 0) return kReadBytes;
  return kReadShare * 2 * 1e3 * clock * (width / 8.0);
}

/// Floors of a refinement pass.
double pass_floors(const ProblemShape& shape) {
  bool bulk_copies = false;
  check(cuda::strip_engine_available(&bulk_copies));
  const std::int64_t pitch = cuda::device_pitch(shape.n, shape.a_type);
  const cuda::NormalProductPlan plan =
      cuda::make_normal_product_plan(shape.n, pitch, shape.r, shape.a_type, limits_of_current_device(), bulk_copies);
  const double launches = static_cast<double>((shape.r + plan.rhs - 1) / plan.rhs);
  if (!plan.fused) return kSimplePass * launches;
  const double by_rhs = plan.rhs == 1 ? 1.05 : plan.rhs == 2 ? 1.3 : 1.6;
  return launches * (element_size(shape.a_type) == 2 ? std::max(1.8, by_rhs) : by_rhs);
}

/// Floors of FP32 rows for a sketch, reading included.
double sketch_floors(std::int64_t d, std::int64_t n) {
  SketchSpec spec;
  spec.d = round_up(d, 16 * spec.zeta);  // as make_sketch_spec does
  spec.batch_rows = batch_rows_for(spec);
  if (!StripSketcher::serves(spec, n)) return kUnstagedRead * spec.zeta;
  const double launches = static_cast<double>(spec.d) / static_cast<double>(cuda::launch_share(spec).d);
  const double strips = launches > 1 ? 2.8 * launches : d <= 2048 ? 1.06 : d <= 4096 ? 1.5 : 2.5;
  return strips + kTableRead / static_cast<double>(n);
}

/// Seconds of Cholesky from the sketch to R on the host, d = 0: from a Gram matrix. Measured for n = 256 ... 1024, where
/// launches one after the other count.
double cholesky_seconds(double d, double n) { return 2 * d * n * n / kFactorFlops + 1.1e-6 * n + n * n * n / 3 / 3e13; }

}  // namespace

SolveCosts cuda_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) {
  const auto n = static_cast<double>(shape.n), r = static_cast<double>(shape.r), m = static_cast<double>(rows);
  const double bytes = m * static_cast<double>(shape.a_row_bytes());
  const double rate = read_rate(), read = bytes / rate, float_read = 4 * m * n / rate;
  SolveCosts costs;
  costs.pass = read * pass_floors(shape) + kPassSeconds + r * kSolveSeconds * (n / 1024) * (n / 1024);
  const double from_file = bytes / std::min(kHostBytes, kFileBytes);
  if (!place.read) costs.read = from_file;
  if (place.residency == Residency::kHost) costs.pass = std::max(costs.pass, bytes / kHostBytes);
  if (place.residency == Residency::kFile) costs.pass = std::max(costs.pass, from_file);
  // Rows that come from the file are worked on while the next ones are on their way.
  const auto beside_reading = [read = costs.read](double seconds) { return std::max(0.0, seconds - read); };
  // dsyrk takes over as it gets better than dgemm, up to half its time.
  const double flops = 2 * m * n * n / std::clamp(n / 1024, 1.0, 2.0);
  const double double_read = 8 * m * n / rate;
  const bool converts = shape.a_type == ElementType::kFloat64;
  costs.gram =
      beside_reading(std::max(flops / kGramFlops, kGramRead * double_read) + (converts ? 0 : kWidening * double_read)) +
      read * pass_floors(shape) + cholesky_seconds(0, n);
  costs.sketch = [=, columns = shape.n](std::int64_t d) {
    return beside_reading(float_read * sketch_floors(d, columns) + (converts ? kConversion * read : 0)) +
           cholesky_seconds(static_cast<double>(d), n);
  };
  return costs;
}

}  // namespace tallsketch
