#include "src/host_solve_costs.h"

#include <algorithm>

namespace tallsketch {

namespace {

constexpr int kMostReaders = 4;         // cores that memory feeds
constexpr double kPassPerRead = 1.8;    // a refinement pass with one right-hand side
constexpr double kHalfPassPerRead = 5;  // 16-bit elements are widened first
constexpr double kPassPerRhs = 0.4;     // of each further right-hand side
constexpr double kSketchPerRead = 2;    // while the sketch stays in the cache
constexpr double kCacheBytes = 8 << 20;
constexpr double kReducedRest = 0.5e-3;
constexpr double kTriangleBytes = 4e9;  // rank 0 between passes: two triangular solves

}  // namespace

StepCosts host_step_costs(const HostModel& host, const ProblemShape& shape, std::int64_t rows, int threads) {
  const auto n = static_cast<double>(shape.n), r = static_cast<double>(shape.r), m = static_cast<double>(rows);
  const double bytes = m * static_cast<double>(shape.a_row_bytes());
  const double read = bytes / (host.read_rate * std::min(threads, kMostReaders));
  const double flops = host.flops * threads;
  const bool half = element_size(shape.a_type) == 2;
  StepCosts costs;
  costs.reads_beside =
      false;  // the reader is a thread beside the others: where bytes come from memory, it takes their time
  costs.file = bytes / host.file_rate;
  costs.gram = m * (n + r) * (n + r) / flops + bytes / host.read_rate / threads;
  costs.sketch = [=](std::int64_t d) {
    const double spill = std::min(1.0, static_cast<double>(d) * n * 4 / kCacheBytes);
    return read * (kSketchPerRead + 2 * spill);
  };
  costs.pass = read * ((half ? kHalfPassPerRead : kPassPerRead) + kPassPerRhs * (r - 1));
  costs.gram_factor = n * n * n / 3 / flops;
  costs.sketch_factor = [=](std::int64_t d) { return (static_cast<double>(d) * n * n + n * n * n / 3) / flops; };
  costs.sketch_qr = [=](std::int64_t d) { return 2 * static_cast<double>(d) * n * n / flops; };
  costs.reduced_rest = kReducedRest;
  costs.between_passes = r * 16 * n * n / kTriangleBytes;
  return costs;
}

SolveCosts host_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place, int threads) {
  const StepCosts steps = host_step_costs(kLoadedHost, shape, rows, threads);
  SolveCosts costs;
  costs.pass = steps.pass + steps.between_passes;
  if (!place.read) costs.read = steps.file;
  if (place.residency == Residency::kFile) costs.pass += steps.file;
  costs.gram = steps.gram + steps.gram_factor;
  costs.sketch = [=](std::int64_t d) { return steps.sketch(d) + steps.sketch_factor(d); };
  return costs;
}

}  // namespace tallsketch
