// The baselines of bench sketch do what they are timed for: cuSPARSE the same S as scatter, cuBLAS a Gaussian one.
#include <cmath>
#include <vector>

#include "kernels/baselines.h"
#include "kernels/sketch_cuda.h"
#include "src/cuda_baselines.h"
#include "tests/support/catch.h"
#include "tests/support/device_data.h"
#include "tests/support/exact_data.h"
#include "tests/support/specs.h"

using namespace tallsketch;

TEST_CASE("The sparse matrix product equals scatter on integers, also when it is built again") {
  for (const SketchSpec& spec :
       {make_spec(SketchHash::kPermuted, 160, 4), make_spec(SketchHash::kIndependent, 255, 3),
        make_spec(SketchHash::kIndependent, 2, 1), make_block_spec(SketchHash::kPermuted, 384, 128, 2, 2)}) {
    for (const std::int64_t n : {1, 33, 64}) {
      const std::int64_t rows = 3001, pitch = n + n % 4;
      const auto a = to_device(make_exact_matrix<float>(0, rows, 0, n, pitch));
      const SlabView slab{a.data(), rows, n, pitch, ElementType::kFloat32, 0};
      auto expected = zeros<float>(spec.d * n), product = zeros<float>(spec.d * n);
      const auto entries = entries_of(spec, 0, rows);
      check(cuda::scatter_fp32(spec, slab, entries.data(), {expected.data(), spec.d, n, n}, nullptr));
      check(cudaDeviceSynchronize());
      const CudaStream stream;
      SpmmSketcher sketcher(spec, slab, {product.data(), spec.d, n, n});
      for (int time = 0; time < 2; ++time) {
        sketcher.build(stream);
        sketcher.preprocess(stream);
        sketcher.apply(stream);
        stream.synchronize();
        INFO("d " << spec.d << " zeta " << spec.zeta << " n " << n << " time " << time);
        CHECK(to_host(product) == to_host(expected));
      }
    }
  }
}

TEST_CASE("Normal numbers have mean 0, variance 1, kurtosis 3, and do not depend on how they are cut") {
  constexpr std::int64_t kCount = 1 << 20;
  DeviceBuffer<float> whole(kCount), part(1001);
  check(cuda::fill_gaussian(5, 0, kCount, 1, whole.data(), nullptr));
  check(cuda::fill_gaussian(5, 4096, part.count(), 1, part.data(), nullptr));
  const std::vector<float> x = to_host(whole), y = to_host(part);
  CHECK(std::equal(y.begin(), y.end(), x.begin() + 4096));
  double mean = 0, second = 0, fourth = 0;
  for (const float value : x) {
    const double v = static_cast<double>(value);
    mean += v / kCount;
    second += v * v / kCount;
    fourth += v * v * v * v / kCount;
  }
  // Five standard deviations: those of the means of x, x^2, x^4 are 1, sqrt(2), sqrt(96) over sqrt(count).
  CHECK(std::fabs(mean) < 5 / std::sqrt(double{kCount}));
  CHECK(std::fabs(second - 1) < 5 * std::sqrt(2.0) / std::sqrt(double{kCount}));
  CHECK(std::fabs(fourth - 3) < 5 * std::sqrt(96.0) / std::sqrt(double{kCount}));
}

TEST_CASE("The Gaussian sketch of unit vectors is S, slab by slab") {
  const std::int64_t d = 64, n = 37, rows = 300,
                     cut = 200;  // unit vectors begin in the first slab and end in the second
  std::vector<float> matrix(static_cast<std::size_t>(rows * n), 0.0F);
  const std::int64_t first_unit = 180;
  for (std::int64_t j = 0; j < n; ++j) matrix[static_cast<std::size_t>((first_unit + j) * n + j)] = 1;
  const auto a = to_device(matrix);
  const SlabView slab{a.data(), rows, n, n, ElementType::kFloat32, 0};
  DeviceBuffer<float> sketch(d * n), s(rows * d);
  const CudaStream stream;
  check(cudaDeviceSynchronize());  // the copy of A, which the stream does not wait for
  GaussianSketcher sketcher(17, d);
  REQUIRE(sketcher.rows_per_slab() >= rows);
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, cut}, {cut, rows}}) {
    sketcher.generate(begin, end - begin, stream);
    sketcher.multiply(rows_of(slab, begin, end - begin), {sketch.data(), d, n, n}, stream);
  }
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  check(cuda::fill_gaussian(17, 0, s.count(), scale, s.data(), stream.get()));
  stream.synchronize();
  const std::vector<float> got = to_host(sketch), expected = to_host(s);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < d; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>((first_unit + j) * d + i);
      wrong += got[static_cast<std::size_t>(i * n + j)] == expected[at] ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}
