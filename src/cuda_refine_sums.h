// RefineSums: the sums of one refinement pass on the device, from x to A^T (b - A x). Held by cuda_backend from the first
// pass of a job on.
#pragma once

#include <cstdint>
#include <vector>

#include "src/cuda_handles.h"
#include "src/cuda_normal_product.h"
#include "src/cuda_rows.h"
#include "src/problem_shape.h"
#include "src/refine.h"

namespace tallsketch {

class RefineSums {
 public:
  RefineSums(const ProblemShape& shape, const CudaStream& stream);

  /// Starts a pass; b counts as 0 without with_b.
  /// x  (n, r) row-major
  void begin(const std::vector<double>& x, bool with_b);
  void add(const RowsOnDevice& rows);
  /// Waits for the stream.
  NormalSums end();

 private:
  std::int64_t n_, r_;
  const CudaStream& stream_;
  NormalProduct product_;
  DeviceBuffer<double> x_, sums_;  // (n, r); (n + 1, r): gradient, then squares
  PinnedBuffer host_;              // either of them
  bool with_b_ = true;
};

}  // namespace tallsketch
