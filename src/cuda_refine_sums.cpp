#include "src/cuda_refine_sums.h"

#include <algorithm>

#include "kernels/strip_plan.h"

namespace tallsketch {

RefineSums::RefineSums(const ProblemShape& shape, const CudaStream& stream)
    : n_(shape.n),
      r_(shape.r),
      stream_(stream),
      product_(n_, cuda::device_pitch(n_, shape.a_type), r_, shape.a_type),
      x_(n_ * r_),
      sums_((n_ + 1) * r_),
      host_((n_ + 1) * r_ * 8) {}

void RefineSums::begin(const std::vector<double>& x, bool with_b) {
  with_b_ = with_b;
  auto* const host = static_cast<double*>(host_.data());
  std::copy(x.begin(), x.end(), host);
  check(cudaMemcpyAsync(x_.data(), host, x_.bytes(), cudaMemcpyHostToDevice, stream_.get()));
  check(cudaMemsetAsync(sums_.data(), 0, sums_.bytes(), stream_.get()));
}

void RefineSums::add(const RowsOnDevice& rows) {
  if (rows.a.rows == 0) return;
  SlabView b = rows.b;
  if (!with_b_) b.data = nullptr;
  product_.add(rows.a, b, x_.data(), sums_.data(), sums_.data() + n_ * r_, stream_);
}

NormalSums RefineSums::end() {
  check(cudaMemcpyAsync(host_.data(), sums_.data(), sums_.bytes(), cudaMemcpyDeviceToHost, stream_.get()));
  stream_.synchronize();
  const auto* const gradient = static_cast<const double*>(host_.data());
  const double* const squares = gradient + n_ * r_;
  return {{gradient, squares}, {squares, squares + r_}};
}

}  // namespace tallsketch
