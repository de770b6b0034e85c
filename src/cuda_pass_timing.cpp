#include "src/cuda_normal_product.h"
#include "src/cuda_timing.h"
#include "src/sketch_timing.h"

namespace tallsketch {

PassTiming time_cuda_pass(const TimedShape& shape, int repeats) {
  const auto [m, n, r, type] = shape;
  const std::int64_t pitch = cuda::device_pitch(n, type);
  const CudaStream stream;
  DeviceBuffer<std::byte> a(m * pitch * element_size(type));
  DeviceBuffer<double> b(m * r), x(n * r), sums((n + 1) * r);  // sums: gradient, squares
  check(cuda::fill_uniform(a.data(), m * pitch, type, stream.get()));
  check(cuda::fill_uniform(b.data(), b.count(), ElementType::kFloat64, stream.get()));
  check(cuda::fill_uniform(x.data(), x.count(), ElementType::kFloat64, stream.get()));
  const SlabView slab{a.data(), m, n, pitch, type, 0}, b_slab{b.data(), m, r, r, ElementType::kFloat64, 0};

  NormalProduct product(n, pitch, r, type);
  const char* const kernel = !product.plan().fused ? "simple" : product.plan().tensor ? "tensor" : "fused";
  const SketchTiming timing = time_beside_floor(slab, stream, repeats, kernel, [&](PartsTimer& parts) {
    parts.time(&Parts::clear, [&] { check(cudaMemsetAsync(sums.data(), 0, sums.bytes(), stream.get())); });
    parts.time(&Parts::apply, [&] { product.add(slab, b_slab, x.data(), sums.data(), sums.data() + n * r, stream); });
  });
  return {timing.floor, timing.complete, timing.kernel};
}

}  // namespace tallsketch
