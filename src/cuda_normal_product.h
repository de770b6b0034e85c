// NormalProduct: the refinement pass on the current device with the memory it needs, fed with any number of rows at a time.
// Made by the CUDA timing; kernels/normal_product.h does the work.
#pragma once

#include <cstdint>

#include "kernels/normal_product.h"
#include "src/cuda_handles.h"

namespace tallsketch {

class NormalProduct {
 public:
  /// pitch  elements from row to row of A in device memory
  NormalProduct(std::int64_t n, std::int64_t pitch, std::int64_t r, ElementType type);

  /// Adds A^T (b - A x) to gradient and the squares of b - A x to residual_squares; all on the device, see the kernel's
  /// header.
  void add(const SlabView& a, const SlabView& b, const double* x, double* gradient, double* residual_squares,
           const CudaStream& stream);

  const cuda::NormalProductPlan& plan() const { return plan_; }

 private:
  cuda::NormalProductPlan plan_;
  DeviceBuffer<double> scratch_;
};

}  // namespace tallsketch
