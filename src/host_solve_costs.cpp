#include "src/host_solve_costs.h"

#include <algorithm>

namespace tallsketch {

namespace {

// One loaded core; memory feeds about four of them.
constexpr double kReadBytes = 6e9;  // of A a second, read only
constexpr int kMostReaders = 4;
constexpr double kFileBytes = 1.5e9;  // assumed, for all kinds of files: contiguous ones in the page cache come at 8e9
constexpr double kFlops = 15e9;       // FP64 dsyrk, Cholesky
constexpr double kPassPerRead = 1.8;  // a refinement pass with one right-hand side
constexpr double kHalfPassPerRead = 5;  // 16-bit elements are widened first
constexpr double kPassPerRhs = 0.4;     // of each further right-hand side
constexpr double kSketchPerRead = 2;    // while the sketch stays in the cache
constexpr double kCacheBytes = 8 << 20;
constexpr double kTriangleBytes = 4e9;  // rank 0 between passes: two triangular solves

}  // namespace

SolveCosts host_solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place, int threads) {
  const auto n = static_cast<double>(shape.n), r = static_cast<double>(shape.r), m = static_cast<double>(rows);
  const double bytes = m * static_cast<double>(shape.a_row_bytes());
  const double read = bytes / (kReadBytes * std::min(threads, kMostReaders));
  const double flops = kFlops * threads;
  const bool half = element_size(shape.a_type) == 2;
  SolveCosts costs;
  costs.pass =
      read * ((half ? kHalfPassPerRead : kPassPerRead) + kPassPerRhs * (r - 1)) + r * 16 * n * n / kTriangleBytes;
  // The reader is a thread beside the others: it takes their time where the bytes come from memory, a disk's is hidden.
  if (!place.read) costs.read = bytes / kFileBytes;
  if (place.residency == Residency::kFile) costs.pass += bytes / kFileBytes;
  costs.gram = (m * (n + r) * (n + r) + n * n * n / 3) / flops + bytes / kReadBytes / threads;
  costs.sketch = [=](std::int64_t d) {
    const auto sketch_rows = static_cast<double>(d);
    const double spill = std::min(1.0, sketch_rows * n * 4 / kCacheBytes);
    return read * (kSketchPerRead + 2 * spill) + (sketch_rows * n * n + n * n * n / 3) / flops;
  };
  return costs;
}

}  // namespace tallsketch
