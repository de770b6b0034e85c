// The CUDA kernels against the rule, the oracle and the host: entries, scatter FP32, FP16 and FP64, conversions, finishing.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/launch_shape.h"
#include "kernels/sketch_cuda.h"
#include "kernels/sketch_rule.h"
#include "src/cuda_handles.h"
#include "src/cuda_reduced_solver.h"
#include "src/reduced_solver.h"
#include "tests/support/catch.h"
#include "tests/support/exact_data.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

template <class T>
DeviceBuffer<T> to_device(const std::vector<T>& host) {
  DeviceBuffer<T> device(static_cast<std::int64_t>(host.size()));
  if (!host.empty()) check(cudaMemcpy(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice));
  return device;
}

template <class T>
std::vector<T> to_host(const DeviceBuffer<T>& device) {
  std::vector<T> host(static_cast<std::size_t>(device.count()));
  if (!host.empty()) check(cudaMemcpy(host.data(), device.data(), device.bytes(), cudaMemcpyDeviceToHost));
  return host;
}

SketchSpec spec_of(SketchHash hash, std::int64_t d, int zeta) { return make_spec(hash, d, zeta, 0x123456789abcdefULL); }

template <class T>
DeviceBuffer<T> zeros(std::int64_t count) {
  DeviceBuffer<T> device(count);
  check(cudaMemset(device.data(), 0, device.bytes()));
  return device;
}

DeviceBuffer<std::uint32_t> entries_of(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows) {
  DeviceBuffer<std::uint32_t> entries(rows * spec.zeta);
  check(cuda::fill_entries(spec, first_row, rows, entries.data(), nullptr));
  check(cudaDeviceSynchronize());
  return entries;
}

}  // namespace

TEST_CASE("The device evaluates the rule exactly as the host does") {
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    for (const auto& [d, zeta] :
         {std::pair<std::int64_t, int>{128, 4}, {2048, 4}, {510, 1}, {96, 3}, {4096, 16}, {14, 7}}) {
      for (const std::int64_t first : {std::int64_t{0}, (std::int64_t{1} << 41) + 12345}) {
        const SketchSpec spec = spec_of(hash, d, zeta);
        const std::vector<std::uint32_t> entries = to_host(entries_of(spec, first, 3000));
        bool equal = true;
        for (std::int64_t i = 0; i < 3000; ++i) {
          for (int t = 0; t < zeta; ++t) {
            const SketchEntry expected = sketch_entry(spec, first + i, t);
            const std::uint32_t entry = entries[static_cast<std::size_t>(i * zeta + t)];
            equal = equal && (entry & 0x7fffffffU) == expected.sketch_row && (entry >> 31 != 0) == expected.negative;
          }
        }
        INFO("hash " << static_cast<int>(hash) << " d " << d << " zeta " << zeta << " first row " << first);
        CHECK(equal);
      }
    }
  }
}

TEST_CASE("FP32 scatter of integers equals the oracle bit for bit for odd widths, rows and pitches") {
  for (const std::int64_t n : {1, 3, 31, 32, 33, 100, 257}) {
    for (const int zeta : {1, 4, 9}) {
      const std::int64_t rows = 1237, first = 77, pitch = n + n % 4;
      const SketchSpec spec = spec_of(SketchHash::kPermuted, zeta * 40, zeta);
      const std::vector<float> matrix = make_exact_matrix<float>(first, rows, 0, n, pitch);
      const auto device = to_device(matrix);
      const auto entries = entries_of(spec, first, rows);
      auto wide = zeros<float>(spec.d * n), narrow = zeros<float>(spec.d * n);
      const SlabView slab{device.data(), rows, n, pitch, ElementType::kFloat32, first};
      check(cuda::scatter_fp32(spec, slab, entries.data(), {wide.data(), spec.d, n, n}, nullptr));
      check(cuda::scatter_fp32_narrow(spec, slab, entries.data(), {narrow.data(), spec.d, n, n}, nullptr));
      const std::vector<double> oracle =
          oracle_sketch(spec, {matrix.data(), rows, n, pitch, ElementType::kFloat32, first}, {nullptr, rows, 0, 0});
      const std::vector<float> got = to_host(wide), got_narrow = to_host(narrow);
      bool equal = true;
      for (std::size_t i = 0; i < oracle.size(); ++i)
        equal = equal && got[i] == oracle[i] && got_narrow[i] == oracle[i];
      INFO("n " << n << " zeta " << zeta);
      CHECK(equal);
    }
  }
}

TEST_CASE("FP64 scatter of integers beyond FP32 equals the oracle bit for bit for odd widths, rows and pitches") {
  for (const std::int64_t n : {1, 3, 7, 8, 9, 31, 32, 33, 100, 257}) {
    for (const int zeta : {1, 4, 9}) {
      const std::int64_t rows = 1237, first = 77, pitch = n + n % 4;
      const SketchSpec spec = spec_of(SketchHash::kPermuted, zeta * 40, zeta);
      std::vector<double> matrix = make_exact_matrix<double>(first, rows, 0, n, pitch);
      for (double& value : matrix) value += 0x1p30;  // wide_exact_entry
      const auto device = to_device(matrix);
      const auto entries = entries_of(spec, first, rows);
      const std::int64_t sketch_pitch = n + 2;
      auto sketch = zeros<double>(spec.d * sketch_pitch);
      check(cuda::scatter_fp64(spec, {device.data(), rows, n, pitch, ElementType::kFloat64, first}, entries.data(),
                               {sketch.data(), spec.d, n, sketch_pitch}, nullptr));
      const std::vector<double> oracle =
          oracle_sketch(spec, {matrix.data(), rows, n, pitch, ElementType::kFloat64, first}, {nullptr, rows, 0, 0});
      const std::vector<double> got = to_host(sketch);
      bool equal = true;
      for (std::int64_t i = 0; i < spec.d; ++i) {
        for (std::int64_t j = 0; j < sketch_pitch; ++j) {
          const double expected = j < n ? oracle[static_cast<std::size_t>(i * n + j)] : 0.0;
          equal = equal && got[static_cast<std::size_t>(i * sketch_pitch + j)] == expected;
        }
      }
      INFO("n " << n << " zeta " << zeta);
      CHECK(equal);
    }
  }
}

TEST_CASE("FP64 scatter takes float32 and float16 rows") {
  const std::int64_t rows = 700;
  const SketchSpec spec = spec_of(SketchHash::kIndependent, 4 * 48 + 1, 4);
  const auto entries = entries_of(spec, 0, rows);
  const auto same_as_oracle = [&](const auto& matrix, std::int64_t n, ElementType type) {
    const auto device = to_device(matrix);
    auto sketch = zeros<double>(spec.d * n);
    check(cuda::scatter_fp64(spec, {device.data(), rows, n, n, type, 0}, entries.data(), {sketch.data(), spec.d, n, n},
                             nullptr));
    return to_host(sketch) == oracle_sketch(spec, {matrix.data(), rows, n, n, type, 0}, {nullptr, rows, 0, 0});
  };
  for (const std::int64_t n : {1, 5, 33}) {
    INFO("n " << n);
    CHECK(same_as_oracle(make_exact_matrix<float>(0, rows, 0, n, n), n, ElementType::kFloat32));
    CHECK(same_as_oracle(make_exact_matrix<std::uint16_t>(0, rows, 0, n, n), n, ElementType::kFloat16));
  }
}

TEST_CASE("FP16 scatter is exact on small integers and within its rounding bound on real numbers, odd widths too") {
  for (const std::int64_t n : {1, 2, 3, 5, 33, 64, 127}) {
    const std::int64_t rows = 700, pitch = (n + 3) / 4 * 4;
    const SketchSpec spec = spec_of(SketchHash::kPermuted, 4 * 48, 4);
    std::vector<float> factor(static_cast<std::size_t>(pitch), 0.0F);
    std::fill_n(factor.begin(), n, 1.0F);
    const auto device_factor = to_device(factor);
    const auto entries = entries_of(spec, 0, rows);
    const std::vector<double> inverse(static_cast<std::size_t>(n), 1.0);
    const auto device_inverse = to_device(inverse);
    const auto sketch_of = [&](const std::vector<float>& matrix) {
      const auto device = to_device(matrix);
      auto half = zeros<std::uint16_t>(spec.d * pitch);
      auto wide = zeros<float>(spec.d * n);
      check(cuda::scatter_fp16(spec, {device.data(), rows, n, pitch, ElementType::kFloat32, 0}, entries.data(),
                               device_factor.data(), {half.data(), spec.d, n, pitch}, nullptr));
      check(cuda::widen_half({half.data(), spec.d, n, pitch}, device_inverse.data(), {wide.data(), spec.d, n, n},
                             nullptr));
      return to_host(wide);
    };
    const auto compare = [&](const std::vector<float>& matrix, double tolerance) {
      const std::vector<double> oracle =
          oracle_sketch(spec, {matrix.data(), rows, n, pitch, ElementType::kFloat32, 0}, {nullptr, rows, 0, 0});
      const std::vector<float> got = sketch_of(matrix);
      double worst = 0;
      for (std::size_t i = 0; i < oracle.size(); ++i) worst = std::max(worst, std::fabs(got[i] - oracle[i]));
      INFO("n " << n << " worst " << worst);
      CHECK(worst <= tolerance);
    };
    std::vector<float> integers(static_cast<std::size_t>(rows * pitch), 0.0F), reals(integers.size(), 0.0F);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        integers[static_cast<std::size_t>(i * pitch + j)] = static_cast<float>(exact_entry(i, j));
        reals[static_cast<std::size_t>(i * pitch + j)] =
            static_cast<float>(std::sin(static_cast<double>(3 * i + 7 * j)) / 4);
      }
    }
    compare(integers, 0);
    // At most 15 entries of size 1/4 meet in a bucket: every one and every partial sum (below 4) rounded to 11 bits.
    compare(reals, 15 * (0.25 + 4) * std::ldexp(1.0, -11));
  }
}

TEST_CASE("Conversions to float follow IEEE for every half and for doubles around float's midpoints") {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  auto device = to_device(halves);
  DeviceBuffer<float> out(65536);
  check(cuda::convert_to_float({device.data(), 256, 256, 256, ElementType::kFloat16, 0}, out.data(), 256, nullptr));
  const std::vector<float> wide = to_host(out);
  bool equal = true;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float expected = half_to_float(halves[i]);
    equal = equal && (std::isnan(expected) ? std::isnan(wide[i]) : wide[i] == expected);
  }
  CHECK(equal);

  std::vector<double> doubles;
  for (int e = -140; e < 128; e += 3) {
    for (const double m : {1.0, 1 + 0x1p-24, 1 + 0x1p-24 + 0x1p-50, 1 + 0x1.8p-23, -1.7})
      doubles.push_back(std::ldexp(m, e));
  }
  auto device_doubles = to_device(doubles);
  const auto count = static_cast<std::int64_t>(doubles.size());
  DeviceBuffer<float> narrow(count + 1);
  check(cuda::convert_to_float({device_doubles.data(), 1, count, count, ElementType::kFloat64, 0}, narrow.data(),
                               count + 1, nullptr));
  const std::vector<float> got = to_host(narrow);
  for (std::size_t i = 0; i < doubles.size(); ++i) equal = equal && got[i] == static_cast<float>(doubles[i]);
  CHECK(equal);
  CHECK(got.back() == 0);  // the padding column
}

TEST_CASE("Row counts beyond 65535 blocks of rows stay within CUDA's grid limits") {
  const std::int64_t rows = 65536 * 32 + 1;
  const SketchSpec spec = spec_of(SketchHash::kPermuted, 64, 4);
  const std::vector<float> ones(static_cast<std::size_t>(rows), 1.0F);
  const auto device = to_device(ones);
  const auto entries = entries_of(spec, 0, rows);
  auto sketch = zeros<float>(spec.d);
  check(cuda::scatter_fp32(spec, {device.data(), rows, 1, 1, ElementType::kFloat32, 0}, entries.data(),
                           {sketch.data(), spec.d, 1, 1}, nullptr));
  std::vector<double> expected(static_cast<std::size_t>(spec.d), 0.0);
  const std::vector<std::uint32_t> host_entries = to_host(entries);
  for (const std::uint32_t entry : host_entries) expected[entry & 0x7fffffffU] += entry >> 31 ? -1.0 : 1.0;
  const std::vector<float> got = to_host(sketch);
  bool equal = true;
  for (std::size_t i = 0; i < expected.size(); ++i) equal = equal && got[i] == expected[i];
  CHECK(equal);
}

TEMPLATE_TEST_CASE("The device QR gives the host's R up to the signs of its rows, and the same x", "", float, double) {
  const std::int64_t d = 200, n = 45, r = 2;
  constexpr double kRoundoff = std::numeric_limits<TestType>::epsilon() / 2;
  std::vector<TestType> sketch(static_cast<std::size_t>(d * (n + r)));
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    sketch[i] = static_cast<TestType>(std::sin(0.37 * static_cast<double>(i * i % 9973)) * (i % 47 == 5 ? 1e-20 : 1e3));
  }
  const auto device = to_device(sketch);
  const CudaStream stream;
  const SketchView<TestType> view{device.data(), d, n + r, n + r};
  const TriangularFactor on_device = qr_of_sketch_on_device(view, n, r, 0.5, stream);
  const TriangularFactor on_host = qr_of_sketch(sketch, d, n, r, 0.5);
  CHECK(on_device.exponent == on_host.exponent);
  CHECK(on_device.unit_roundoff == kRoundoff);
  const ReducedSolution a = solve_reduced(on_device, d), b = solve_reduced(on_host, d);
  REQUIRE(a.rank == n);
  REQUIRE(b.rank == n);
  double worst = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    double error = 0, norm = 0;
    for (std::int64_t i = 0; i <= j; ++i) {
      const auto at = static_cast<std::size_t>(j * (n + r) + i);
      error = std::max(error, std::fabs(std::fabs(on_device.upper[at]) - std::fabs(on_host.upper[at])));
      norm = std::max(norm, std::fabs(on_host.upper[at]));
    }
    worst = std::max(worst, error / norm);
  }
  // Rows of R move by the condition of the columns before them, times the rounding of a QR of 200 rows.
  CHECK(worst < 200 * kRoundoff * b.condition);
  for (std::size_t i = 0; i < a.x.size(); ++i) {
    const double tolerance = sizeof(TestType) == 4 ? 1e-3 : 1e-10;
    CHECK(a.x[i] == Catch::Approx(b.x[i]).epsilon(tolerance).margin(sizeof(TestType) == 4 ? 1e-6 : 1e-12));
  }
}

TEMPLATE_TEST_CASE("Non-finite elements of a sketch are counted, and its columns' largest magnitudes found", "", float,
                   double) {
  std::vector<TestType> sketch(1000, TestType{1});
  sketch[17] = std::numeric_limits<TestType>::infinity();
  sketch[999] = std::numeric_limits<TestType>::quiet_NaN();
  sketch[503] = std::numeric_limits<TestType>::lowest();
  sketch[504] = -3;
  auto device = to_device(sketch);
  auto count = zeros<unsigned long long>(1);
  const SketchView<TestType> view{device.data(), 100, 10, 10};
  check(cuda::count_non_finite(view, count.data(), nullptr));
  CHECK(to_host(count)[0] == 2);
  const std::vector<double> largest = column_maxima_on_device(view, CudaStream());
  CHECK(largest[3] == static_cast<double>(std::numeric_limits<TestType>::max()));
  CHECK(largest[4] == 3);
  CHECK(std::isinf(largest[7]));
  CHECK(largest[9] == 1);  // NaN is passed over
}
