#include "src/cuda_normal_product.h"

#include "kernels/strip_engine.h"
#include "src/cuda_strip.h"

namespace tallsketch {

NormalProduct::NormalProduct(std::int64_t n, std::int64_t pitch, std::int64_t r, ElementType type) {
  bool bulk_copies = false;
  check(cuda::strip_engine_available(&bulk_copies));
  plan_ = cuda::make_normal_product_plan(n, pitch, r, type, limits_of_current_device(), bulk_copies);
  scratch_ = DeviceBuffer<double>(plan_.scratch_doubles());
}

void NormalProduct::add(const SlabView& a, const SlabView& b, const double* x, double* gradient,
                        double* residual_squares, const CudaStream& stream) {
  check(cuda::normal_product(plan_, a, b, x, scratch_.data(), gradient, residual_squares, stream.get()));
}

}  // namespace tallsketch
