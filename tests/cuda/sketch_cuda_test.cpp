// The CUDA kernels against the rule, the oracle and the host: entries, scatter FP32, FP16, BF16 and FP64, conversions,
// finishing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/half.h"
#include "kernels/launch_shape.h"
#include "kernels/rounded_half.h"
#include "kernels/signed_entry.h"
#include "kernels/sketch_cuda.h"
#include "kernels/sketch_rule.h"
#include "src/cuda_handles.h"
#include "src/cuda_reduced_solver.h"
#include "src/options.h"
#include "tests/support/catch.h"
#include "tests/support/device_data.h"
#include "tests/support/exact_data.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

SketchSpec spec_of(SketchHash hash, std::int64_t d, int zeta) { return make_spec(hash, d, zeta, 0x123456789abcdefULL); }

SketchSpec half_spec(SketchPrecision precision, SketchRounding rounding, std::int64_t d, int zeta) {
  SketchSpec spec = spec_of(SketchHash::kPermuted, std::max<std::int64_t>(d, zeta), zeta);
  spec.precision = precision;
  spec.rounding = rounding;
  return spec;
}

struct HalfRun {
  std::vector<float> sketch;  // (d, n), widened
  RoundingLosses losses;
};

/// scatter_half of a slab on the host, chunk_rows at a time, with factors 1; 0 for the padding column.
/// entries_for  (first global row, rows) -> entries on the device
template <class F>
HalfRun half_sketch(const SketchSpec& spec, const SlabView& slab, F&& entries_for, std::int64_t chunk_rows = 1 << 20) {
  const auto* const data = static_cast<const float*>(slab.data);
  const auto device = to_device(std::vector<float>(data, data + slab.rows * slab.pitch));
  std::vector<float> factor(static_cast<std::size_t>(slab.pitch), 0.0F);
  std::fill_n(factor.begin(), slab.cols, 1.0F);
  const auto device_factor = to_device(factor);
  const auto inverse = to_device(std::vector<double>(static_cast<std::size_t>(slab.cols), 1.0));
  auto half = zeros<std::uint16_t>(spec.d * slab.pitch);
  auto wide = zeros<float>(spec.d * slab.cols);
  auto losses = zeros<RoundingLosses>(1);
  SlabView on_device = slab;
  on_device.data = device.data();
  for (std::int64_t begin = 0; begin < slab.rows; begin += chunk_rows) {
    const SlabView part = rows_of(on_device, begin, std::min(chunk_rows, slab.rows - begin));
    const auto entries = entries_for(part.first_row, part.rows);
    check(cuda::scatter_half(spec, part, entries.data(), device_factor.data(),
                             {half.data(), spec.d, slab.cols, slab.pitch}, losses.data(), nullptr));
    check(cudaDeviceSynchronize());
  }
  const ElementType type = spec.precision == SketchPrecision::kFp16 ? ElementType::kFloat16 : ElementType::kBfloat16;
  check(cuda::widen_half(type, {half.data(), spec.d, slab.cols, slab.pitch}, inverse.data(),
                         {wide.data(), spec.d, slab.cols, slab.cols}, nullptr));
  return {to_host(wide), to_host(losses)[0]};
}

std::uint32_t nearest_on_host(Binary16, float value) { return float_to_half(value); }
std::uint32_t nearest_on_host(Bfloat16, float value) { return float_to_bfloat16(value); }

/// The contribution of a product of a global row and column to block t, before its sign.
template <class Format>
std::uint32_t rounded_on_host(const SketchSpec& spec, std::int64_t row, std::int64_t col, int t, float product) {
  if (spec.rounding == SketchRounding::kNearest) return nearest_on_host(Format{}, product);
  const RandomWords words = rounding_words(spec.seed, row, static_cast<std::uint32_t>(col / 2),
                                           static_cast<std::uint32_t>(t / kBlocksPerDraw));
  const std::uint32_t random = rounding_bits(words, 2 * (t % kBlocksPerDraw) + static_cast<int>(col % 2));
  if (spec.rounding == SketchRounding::kDither) return nearest_on_host(Format{}, dithered<Format>(product, random));
  return round_stochastically(bracket<Format>(product), random);
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
            equal = equal && entry_row(entry) == expected.sketch_row && (entry >> 31 != 0) == expected.negative;
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

TEST_CASE(
    "A 16-bit scatter of integers equals the oracle bit for bit: every format, rounding, zeta and odd width (C-34)") {
  for (const SketchPrecision precision : {SketchPrecision::kFp16, SketchPrecision::kBf16}) {
    for (const SketchRounding rounding :
         {SketchRounding::kNearest, SketchRounding::kStochastic, SketchRounding::kDither}) {
      for (const std::int64_t n : {1, 2, 3, 33, 64, 127}) {
        for (const int zeta : {1, 4, 9}) {
          // At most 16 entries of magnitude 8 meet in a bucket: sums stay below 256, which BF16 counts up to exactly.
          const std::int64_t rows = 700, first = 5, pitch = (n + 3) / 4 * 4;
          const SketchSpec spec = half_spec(precision, rounding, zeta * 48, zeta);
          const std::vector<float> matrix = make_exact_matrix<float>(first, rows, 0, n, pitch);
          const SlabView slab{matrix.data(), rows, n, pitch, ElementType::kFloat32, first};
          const std::vector<double> oracle = oracle_sketch(spec, slab, {nullptr, rows, 0, 0});
          const HalfRun run = half_sketch(
              spec, slab, [&](std::int64_t begin, std::int64_t count) { return entries_of(spec, begin, count); });
          bool equal = true;
          for (std::size_t i = 0; i < oracle.size(); ++i) equal = equal && run.sketch[i] == oracle[i];
          INFO("precision " << to_word(precision) << " rounding " << to_word(rounding) << " n " << n << " zeta "
                            << zeta);
          CHECK(equal);
          CHECK(run.losses.overflowed == 0);
          CHECK(run.losses.flushed == 0);
        }
      }
    }
  }
}

TEST_CASE("An FP16 sketch of real numbers is within its rounding bound") {
  const std::int64_t rows = 700, n = 33, pitch = 36;
  const SketchSpec spec = half_spec(SketchPrecision::kFp16, SketchRounding::kNearest, 4 * 48, 4);
  std::vector<float> reals(static_cast<std::size_t>(rows * pitch), 0.0F);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      reals[static_cast<std::size_t>(i * pitch + j)] =
          static_cast<float>(std::sin(static_cast<double>(3 * i + 7 * j)) / 4);
  }
  const SlabView slab{reals.data(), rows, n, pitch, ElementType::kFloat32, 0};
  const std::vector<double> oracle = oracle_sketch(spec, slab, {nullptr, rows, 0, 0});
  const HalfRun run =
      half_sketch(spec, slab, [&](std::int64_t begin, std::int64_t count) { return entries_of(spec, begin, count); });
  double worst = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) worst = std::max(worst, std::fabs(run.sketch[i] - oracle[i]));
  // At most 16 entries of size 1/4 meet in a bucket: every one and every partial sum (below 4) rounded to 11 bits.
  CHECK(worst <= 16 * (0.25 + 4) * std::ldexp(1.0, -11));
}

TEST_CASE("16-bit contributions and their losses are the host's bit for bit, at any chunking") {
  // Every entry of S has a sketch row of its own, so that the sketch shows the contributions one by one.
  const std::int64_t rows = 300, n = 7, pitch = 8, first = (std::int64_t{1} << 33) + 7;
  std::vector<float> matrix(static_cast<std::size_t>(rows * pitch), std::nanf(""));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const std::uint32_t word = random_words(9, i * n + j, DrawPurpose::kVectors, 0).word[0];
      const int exponent = static_cast<int>(i % 60) - 40;  // halves end at 2^-24 and 2^16
      matrix[static_cast<std::size_t>(i * pitch + j)] =
          static_cast<float>(std::ldexp(static_cast<double>(static_cast<std::int32_t>(word)), exponent - 31));
    }
  }
  const SlabView slab{matrix.data(), rows, n, pitch, ElementType::kFloat32, first};
  for (const SketchPrecision precision : {SketchPrecision::kFp16, SketchPrecision::kBf16}) {
    for (const SketchRounding rounding :
         {SketchRounding::kNearest, SketchRounding::kStochastic, SketchRounding::kDither}) {
      const int zeta = 11;  // two groups peeled, a cut one in the loop
      SketchSpec spec = half_spec(precision, rounding, 0, zeta);
      spec.d = rows * zeta;
      RoundingLosses losses;
      std::vector<float> expected;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (int t = 0; t < zeta; ++t) {
          for (std::int64_t j = 0; j < n; ++j) {
            const float product = matrix[static_cast<std::size_t>(i * pitch + j)];
            const std::uint32_t pattern = precision == SketchPrecision::kFp16
                                              ? rounded_on_host<Binary16>(spec, first + i, j, t, product)
                                              : rounded_on_host<Bfloat16>(spec, first + i, j, t, product);
            const bool over = precision == SketchPrecision::kFp16 ? has_overflowed<Binary16>(product, pattern)
                                                                  : has_overflowed<Bfloat16>(product, pattern);
            losses.overflowed += over ? 1 : 0;
            losses.flushed += was_flushed(product, pattern) ? 1 : 0;
            const float value = precision == SketchPrecision::kFp16
                                    ? half_to_float(static_cast<std::uint16_t>(pattern))
                                    : bfloat16_to_float(static_cast<std::uint16_t>(pattern));
            expected.push_back(t % 2 == 1 ? -value : value);
          }
        }
      }
      const auto own_rows = [&](std::int64_t begin, std::int64_t count) {
        std::vector<std::uint32_t> entries;
        for (std::int64_t k = (begin - first) * zeta; k < (begin - first + count) * zeta; ++k)
          entries.push_back(static_cast<std::uint32_t>(k) | (k % zeta % 2 == 1 ? kEntrySign : 0U));
        return to_device(entries);
      };
      for (const std::int64_t chunk : {rows, std::int64_t{77}}) {
        const HalfRun run = half_sketch(spec, slab, own_rows, chunk);
        std::int64_t wrong = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) wrong += run.sketch[i] != expected[i];
        INFO("precision " << to_word(precision) << " rounding " << to_word(rounding) << " chunk " << chunk);
        CHECK(wrong == 0);
        CHECK(run.losses.overflowed == losses.overflowed);
        CHECK(run.losses.flushed == losses.flushed);
        if (precision == SketchPrecision::kFp16) CHECK((losses.overflowed > 0 && losses.flushed > 0));
      }
    }
  }
}

TEST_CASE("Random conversions are right on average: a quarter of a gap is rounded up in a quarter of the cases") {
  const std::int64_t rows = 4096, n = 32;
  struct Row {
    SketchPrecision precision;
    SketchRounding rounding;
    float value, upper;
  };
  for (const Row& row : {Row{SketchPrecision::kFp16, SketchRounding::kStochastic, 1024.25F, 1025},
                         Row{SketchPrecision::kFp16, SketchRounding::kStochastic, 0x1.2p-23F, 0x1.8p-23F},
                         Row{SketchPrecision::kFp16, SketchRounding::kStochastic, 0x1p-26F, 0x1p-24F},
                         Row{SketchPrecision::kFp16, SketchRounding::kDither, 2047.25F, 2048},
                         Row{SketchPrecision::kBf16, SketchRounding::kStochastic, 128.25F, 129},
                         Row{SketchPrecision::kBf16, SketchRounding::kDither, 255.25F, 256}}) {
    SketchSpec spec = half_spec(row.precision, row.rounding, 0, 1);
    spec.d = rows;
    const std::vector<float> matrix(static_cast<std::size_t>(rows * n), row.value);
    const HalfRun run = half_sketch(spec, {matrix.data(), rows, n, n, ElementType::kFloat32, 0},
                                    [&](std::int64_t begin, std::int64_t count) {
                                      std::vector<std::uint32_t> entries;
                                      for (std::int64_t k = begin; k < begin + count; ++k)
                                        entries.push_back(static_cast<std::uint32_t>(k));
                                      return to_device(entries);
                                    });
    const auto all = static_cast<double>(run.sketch.size());
    const double share = static_cast<double>(std::count(run.sketch.begin(), run.sketch.end(), row.upper)) / all;
    INFO("value " << row.value << " share " << share);
    // Six standard deviations; dither's width at 255.25 is 0.997 of a gap, which moves the share by 0.0007.
    CHECK(std::fabs(share - 0.25) < 6 * std::sqrt(0.25 * 0.75 / all) + 0.001);
  }
}

TEST_CASE("Overflowed and flushed contributions are counted, what was zero or not finite before is not") {
  const std::int64_t rows = 100, n = 5, pitch = 8;
  const SketchSpec spec = half_spec(SketchPrecision::kFp16, SketchRounding::kNearest, 64, 4);
  std::vector<float> matrix(static_cast<std::size_t>(rows * pitch), 1.0F);
  const auto at = [&](std::int64_t i, std::int64_t j) -> float& {
    return matrix[static_cast<std::size_t>(i * pitch + j)];
  };
  at(3, 0) = 65520;  // the smallest that becomes infinite
  at(50, 4) = -1e30F;
  at(99, 1) = 1e5F;
  at(0, 0) = 65519;
  at(7, 2) = 0x1p-25F;  // the largest that becomes zero
  at(8, 3) = -1e-42F;
  at(9, 3) = std::nextafterf(0x1p-25F, 1.0F);
  at(10, 3) = 0;
  at(11, 3) = INFINITY;
  at(12, 3) = std::nanf("");
  for (std::int64_t i = 0; i < rows; ++i) at(i, 5) = i % 2 == 0 ? std::nanf("") : 1e30F;  // the padding column
  const HalfRun run =
      half_sketch(spec, {matrix.data(), rows, n, pitch, ElementType::kFloat32, 0},
                  [&](std::int64_t begin, std::int64_t count) { return entries_of(spec, begin, count); });
  CHECK(run.losses.overflowed == 3 * 4);
  CHECK(run.losses.flushed == 2 * 4);
}

TEST_CASE("Halves of scaled columns come back within half a last place, once rounded") {
  const std::int64_t d = 37, n = 5, cols = 7;
  std::vector<float> sketch(static_cast<std::size_t>(d * cols));
  for (std::size_t i = 0; i < sketch.size(); ++i)
    sketch[i] = static_cast<float>(std::sin(double(i)) * (i % 7 == 2 ? 1e-30 : 1e6));
  const std::vector<double> factor = {0x1p-6, 0x1p-6, 0x1p110, 1.0 / 64, 0x1p-7};
  std::vector<double> inverse;
  for (const double value : factor) inverse.push_back(1 / value);
  const auto device = to_device(sketch);
  const auto device_factor = to_device(factor), device_inverse = to_device(inverse);
  DeviceBuffer<std::uint16_t> halves(d * n);
  auto back = zeros<float>(d * n);
  check(cuda::narrow_to_half({device.data(), d, n, cols}, device_factor.data(), {halves.data(), d, n, n}, nullptr));
  check(cuda::widen_half(ElementType::kFloat16, {halves.data(), d, n, n}, device_inverse.data(), {back.data(), d, n, n},
                         nullptr));
  const std::vector<std::uint16_t> narrow = to_host(halves);
  const std::vector<float> wide = to_host(back);
  bool equal = true;
  for (std::int64_t i = 0; i < d; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto k = static_cast<std::size_t>(i * n + j), column = static_cast<std::size_t>(j);
      const std::uint16_t half = double_to_half(sketch[static_cast<std::size_t>(i * cols + j)] * factor[column]);
      equal = equal && narrow[k] == half && wide[k] == static_cast<float>(half_to_double(half) * inverse[column]);
    }
  }
  CHECK(equal);
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

TEST_CASE("Row counts beyond 65535 blocks of rows stay within CUDA's grid limits (C-21)") {
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
  for (const std::uint32_t entry : host_entries) expected[entry_row(entry)] += with_sign(1.0, entry);
  const std::vector<float> got = to_host(sketch);
  bool equal = true;
  for (std::size_t i = 0; i < expected.size(); ++i) equal = equal && got[i] == expected[i];
  CHECK(equal);
}

TEST_CASE("An FP16 or BF16 scatter of more than 65535 blocks of rows stays within CUDA's grid limits (C-21)") {
  const std::int64_t rows = 65536 * 32 + 1, pitch = 2;  // 2 097 153 x 1, and the padding column
  std::vector<float> matrix(static_cast<std::size_t>(rows * pitch), std::nanf(""));
  for (const auto& [precision, d] :
       {std::pair<SketchPrecision, std::int64_t>{SketchPrecision::kFp16, 8192}, {SketchPrecision::kBf16, 65536}}) {
    // So few ones meet in a sketch row that either format counts them exactly, in any order: 1024 of 2048, 128 of 256.
    const SketchSpec spec = half_spec(precision, SketchRounding::kNearest, d, 4);
    for (std::int64_t i = 0; i < rows; ++i) matrix[static_cast<std::size_t>(i * pitch)] = 1.0F;
    const SlabView slab{matrix.data(), rows, 1, pitch, ElementType::kFloat32, 0};
    const HalfRun run = half_sketch(
        spec, slab, [&](std::int64_t begin, std::int64_t count) { return entries_of(spec, begin, count); }, rows);
    std::vector<float> expected(static_cast<std::size_t>(d), 0.0F);
    std::vector<int> meeting(static_cast<std::size_t>(d), 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (int t = 0; t < spec.zeta; ++t) {
        const SketchEntry entry = sketch_entry(spec, i, t);
        expected[static_cast<std::size_t>(entry.sketch_row)] += entry.negative ? -1.0F : 1.0F;
        ++meeting[static_cast<std::size_t>(entry.sketch_row)];
      }
    }
    INFO("precision " << to_word(precision));
    REQUIRE(*std::max_element(meeting.begin(), meeting.end()) <=
            (precision == SketchPrecision::kFp16 ? 2048 : 256));  // or the sums below would depend on the order
    CHECK((run.sketch == expected));
    CHECK(run.losses.overflowed == 0);
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
