#include "src/direct_qr.h"

#include <lapacke.h>

#include "src/error.h"
#include "src/host_buffer.h"
#include "src/host_timing.h"

namespace tallsketch {

std::vector<double> direct_qr(const SlabView& a, const SlabView& b, const ProblemShape& shape, double& seconds) {
  const std::int64_t m = a.rows, n = shape.n, r = shape.r;
  require(element_size(a.type) >= 4, ErrorKind::kUsage, "the rival QR takes float32 and float64 A only");
  HostBuffer copy(m * n * 8), right(m * r * 8);
  auto* const q = reinterpret_cast<double*>(copy.data());
  auto* const c = reinterpret_cast<double*>(right.data());
  const auto element = [&](std::int64_t i, std::int64_t j) {
    const std::int64_t at = i * a.pitch + j;
    return a.type == ElementType::kFloat64 ? static_cast<const double*>(a.data)[at]
                                           : double{static_cast<const float*>(a.data)[at]};
  };
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) q[j * m + i] = element(i, j);
    for (std::int64_t k = 0; k < r; ++k) c[k * m + i] = static_cast<const double*>(b.data)[i * b.pitch + k];
  }
  lapack_int info = 0;
  const int rows = checked_int(m, "m"), cols = checked_int(n, "n"), rhs = checked_int(r, "r");
  seconds = seconds_of([&] { info = LAPACKE_dgels(LAPACK_COL_MAJOR, 'N', rows, cols, rhs, q, rows, c, rows); });
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate the workspace of dgels");
  require(info == 0, ErrorKind::kRankDeficient, fmt::format("LAPACKE_dgels returned {}", info));
  std::vector<double> x;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < r; ++k) x.push_back(c[k * m + i]);
  }
  return x;
}

}  // namespace tallsketch
