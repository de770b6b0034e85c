#include "src/host_timing.h"

#include "kernels/half.h"
#include "kernels/philox.h"

namespace tallsketch {

namespace {

/// One draw a row, spread by a multiplicative congruence. convert  a float to the stored type
template <class T, class F>
void fill(T* a, std::int64_t m, std::int64_t n, int threads, F&& convert) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < m; ++i) {
    std::uint32_t state = random_words(1, i, DrawPurpose::kMatrixEntries, 0).word[0];
    for (std::int64_t j = 0; j < n; ++j) {
      state = state * 1664525U + 1013904223U;
      a[i * n + j] = convert(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31F);
    }
  }
}

}  // namespace

HostBuffer made_up_matrix(const TimedShape& shape, int threads) {
  HostBuffer data(shape.bytes_of_a());
  const std::int64_t m = shape.m, n = shape.n;
  switch (shape.type) {
    case ElementType::kFloat32:
      fill(reinterpret_cast<float*>(data.data()), m, n, threads, [](float value) { return value; });
      break;
    case ElementType::kFloat64:
      fill(reinterpret_cast<double*>(data.data()), m, n, threads, [](float value) { return double{value}; });
      break;
    case ElementType::kFloat16:
      fill(reinterpret_cast<std::uint16_t*>(data.data()), m, n, threads,
           [](float value) { return float_to_half(value); });
      break;
    case ElementType::kBfloat16:
      fill(reinterpret_cast<std::uint16_t*>(data.data()), m, n, threads,
           [](float value) { return float_to_bfloat16(value); });
      break;
  }
  return data;
}

}  // namespace tallsketch
