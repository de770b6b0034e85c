// The strip engine against the dense oracle, bit for bit on integers: every zeta, widths, cuts, all strip widths and types;
// equal bits from run to run on real numbers.
#include <cmath>
#include <vector>

#include "kernels/half.h"
#include "kernels/rounding.h"
#include "kernels/sketch_rule.h"
#include "kernels/strip_engine.h"
#include "src/cuda_strip.h"
#include "src/text.h"
#include "tests/support/catch.h"
#include "tests/support/exact_data.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

SketchSpec spec_of(std::int64_t d, int zeta) { return make_spec(SketchHash::kPermuted, d, zeta, 99); }

/// A slab's copy on the device.
DeviceBuffer<std::byte> to_device(const SlabView& slab) {
  DeviceBuffer<std::byte> device(slab.rows * slab.pitch * element_size(slab.type));
  check(cudaMemcpy(device.data(), slab.data, device.bytes(), cudaMemcpyHostToDevice));
  return device;
}

/// Sketch (d, n + r) of a slab by the engine, its rows given in so many pieces.
std::vector<float> engine_sketch(const SketchSpec& spec, SlabView a, SlabView b, int pieces) {
  const CudaStream stream;
  const auto device_a = to_device(a), device_b = to_device(b);
  a.data = device_a.data();
  b.data = device_b.data();
  const std::int64_t cols = a.cols + b.cols;
  DeviceBuffer<float> sketch(spec.d * cols);
  check(cudaMemset(sketch.data(), 0, sketch.bytes()));
  StripSketcher sketcher(spec, a.cols, b.cols, (a.rows + pieces - 1) / pieces, a.type);
  for (int piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = a.rows * piece / pieces, end = a.rows * (piece + 1) / pieces;
    sketcher.add(rows_of(a, begin, end - begin), rows_of(b, begin, end - begin), {sketch.data(), spec.d, a.cols, cols},
                 {sketch.data() + a.cols, spec.d, b.cols, cols}, stream);
  }
  stream.synchronize();
  std::vector<float> host(static_cast<std::size_t>(sketch.count()));
  check(cudaMemcpy(host.data(), sketch.data(), sketch.bytes(), cudaMemcpyDeviceToHost));
  return host;
}

/// The values in 16 bits each; integers up to 256 are exact in both formats. NaN becomes a large number.
std::vector<std::uint16_t> in_half_precision(const std::vector<float>& values, ElementType type) {
  std::vector<std::uint16_t> halves;
  halves.reserve(values.size());
  for (const float value : values) {
    const float finite = std::isnan(value) ? 4096.0F : value;
    halves.push_back(type == ElementType::kFloat16 ? float_to_half(finite) : float_to_bfloat16(finite));
  }
  return halves;
}

/// The padding of the exact matrix is NaN, for halves 4096: whatever reads it into the sketch is found out.
void check_exact_with_pitch(const SketchSpec& spec, std::int64_t rows, std::int64_t n, std::int64_t r,
                            std::int64_t first_row, int pieces, std::int64_t pitch, ElementType type) {
  REQUIRE(StripSketcher::serves(spec, n));
  const std::vector<float> values = make_exact_matrix<float>(first_row, rows, 0, n, pitch);
  const std::vector<std::uint16_t> halves = in_half_precision(values, type);
  const std::vector<float> rhs = make_exact_matrix<float>(first_row, rows, n, r, r);
  const void* const data = type == ElementType::kFloat32 ? static_cast<const void*>(values.data()) : halves.data();
  const SlabView a{data, rows, n, pitch, type, first_row};
  const SlabView b{rhs.data(), rows, r, r, ElementType::kFloat32, first_row};
  const std::vector<double> oracle = oracle_sketch(spec, a, b);
  const std::vector<float> got = engine_sketch(spec, a, b, pieces);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) wrong += static_cast<double>(got[i]) == oracle[i] ? 0 : 1;
  INFO("type " << to_word(type) << " d " << spec.d << " zeta " << spec.zeta << " T " << spec.batch_rows << " rows "
               << rows << " n " << n << " r " << r << " pitch " << pitch << " first row " << first_row << " pieces "
               << pieces);
  CHECK(wrong == 0);
}

/// With the backend's pitch, and with the least that the engine takes, where strips are cut by the end of the row.
void check_exact(const SketchSpec& spec, std::int64_t rows, std::int64_t n, std::int64_t r, std::int64_t first_row,
                 int pieces, ElementType type = ElementType::kFloat32) {
  check_exact_with_pitch(spec, rows, n, r, first_row, pieces, cuda::device_pitch(n, type), type);
  check_exact_with_pitch(spec, rows, n, r, first_row, pieces, round_up(n, 16 / element_size(type)), type);
}

/// Real numbers: A (rows, n) and one right-hand side.
struct RealData {
  std::int64_t rows, n;
  std::vector<float> a, b;
  SlabView slab() const { return {a.data(), rows, n, n, ElementType::kFloat32, 0}; }
  SlabView rhs() const { return {b.data(), rows, 1, 1, ElementType::kFloat32, 0}; }
};

RealData make_real_data(std::int64_t rows, std::int64_t n) {
  RealData data{rows, n, std::vector<float>(static_cast<std::size_t>(rows * n)),
                std::vector<float>(static_cast<std::size_t>(rows))};
  for (std::size_t i = 0; i < data.a.size(); ++i)
    data.a[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i % 100003)));
  for (std::size_t i = 0; i < data.b.size(); ++i)
    data.b[i] = static_cast<float>(std::cos(0.3 * static_cast<double>(i)));
  return data;
}

constexpr ElementType kHalfTypes[] = {ElementType::kFloat16, ElementType::kBfloat16};

}  // namespace

TEST_CASE("The engine equals the oracle for every zeta from 1 to 16") {
  for (int zeta = 1; zeta <= 16; ++zeta) check_exact(spec_of(zeta * 32, zeta), 2000, 40, 1, 0, 1);
}

TEST_CASE("The engine equals the oracle for narrow, odd and many-strip widths") {
  for (const std::int64_t n : {1, 3, 8, 9, 16, 17, 31, 32, 33, 64, 100, 257, 1023})
    check_exact(spec_of(128, 4), 1500, n, 1, 0, 1);
}

TEST_CASE("The engine equals the oracle for all strip widths, clusters and batches longer than a tile") {
  for (const auto& [d, zeta] : {std::pair<std::int64_t, int>{1024, 4},
                                {1024, 1},
                                {2048, 4},
                                {2048, 1},
                                {2048, 2},
                                {4096, 4},
                                {4096, 1},
                                {4096, 8},
                                {8192, 4},
                                {8192, 1},
                                {8192, 16},
                                {12288, 4},     // two launches
                                {16384, 2},     // of one block each
                                {32768, 8}}) {  // four
    check_exact(spec_of(d, zeta), 5000, 70, 1, 0, 1);
  }
}

TEST_CASE("The engine equals the oracle for sketch sizes that fill slots unevenly") {
  for (const auto& [d, zeta] : {std::pair<std::int64_t, int>{16, 4},
                                {320, 4},
                                {384, 4},
                                {512, 4},
                                {1088, 4},
                                {1500, 6},
                                {96, 3},
                                {1030, 5},
                                {2 * 509, 2},
                                {40, 8}}) {
    check_exact(spec_of(d, zeta), 3000, 45, 2, 0, 1);
  }
}

TEST_CASE("Batches cut by slabs, chunks and the end of the matrix change nothing") {
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{511}, std::int64_t{513},
                                   std::int64_t{100003}, (std::int64_t{1} << 40) + 77}) {
    for (const int pieces : {1, 2, 7}) check_exact(spec_of(128, 4), 1777, 36, 3, first, pieces);
    check_exact(spec_of(2048, 1), 2600, 36, 1, first, 3);
  }
  check_exact(spec_of(128, 4), 1, 36, 1, 5, 1);
  for (const std::int64_t r : {4, 5, 18}) check_exact(spec_of(128, 4), 1777, 36, r, 511, 2);  // columns of b by fours
}

TEST_CASE("The engine gives equal bits from run to run on real numbers, and the oracle's values to rounding (C-36)") {
  const RealData data = make_real_data(60000, 96);
  const SketchSpec spec = spec_of(256, 4);
  const std::vector<float> first = engine_sketch(spec, data.slab(), data.rhs(), 1);
  for (int run = 0; run < 9; ++run) CHECK(engine_sketch(spec, data.slab(), data.rhs(), 1) == first);
  const std::vector<double> oracle = oracle_sketch(spec, data.slab(), data.rhs());
  double worst = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) worst = std::max(worst, std::fabs(first[i] - oracle[i]));
  // A sketch row sums 60000 * 4 / 256 = 938 numbers of size 1: below 938 roundings of sums of size about 31.
  CHECK(worst < 938 * 31 * 6e-8);
}

TEST_CASE("The independent hash equals the oracle too: every zeta, uneven blocks, all strip widths, cut slabs, b") {
  const auto independent = [](std::int64_t d, int zeta) {
    SketchSpec spec = spec_of(d, zeta);
    spec.hash = SketchHash::kIndependent;
    return spec;
  };
  for (int zeta = 1; zeta <= 16; ++zeta) check_exact(independent(zeta * 32 + zeta / 2, zeta), 2000, 40, 1, 0, 1);
  for (const std::int64_t d : {7, 129, 512, 1024, 2047, 2048, 4095, 4096, 8191, 8192}) {
    check_exact(independent(d, 4), 3000, 70, 2, 100003, 3);
  }
  for (const std::int64_t n : {1, 9, 33, 257}) check_exact(independent(300, 3), 1500, n, 1, 77, 2);
  check_exact(independent(8192, 16), 3000, 30, 1, 0, 1);
  check_exact(independent(2048, 1), 3000, 30, 1, 0, 1);
  check_exact(independent(138, 9), 2049, 64, 3, 0, 1);
}

TEST_CASE("BlockPerm equals the oracle: kappa, s, B_r, widths, several batches a tile and several tiles a batch, b") {
  struct Shape {
    std::int64_t d, block_rows;
    std::int32_t kappa, block_nnz;
  };
  for (const Shape& s : {Shape{2048, 128, 2, 2}, Shape{1024, 128, 2, 2}, Shape{128, 128, 1, 2}, Shape{256, 64, 4, 2},
                         Shape{512, 64, 2, 8}, Shape{320, 64, 3, 1}, Shape{360, 60, 5, 3}, Shape{96, 8, 12, 1},
                         Shape{4096, 128, 2, 2}, Shape{8192, 128, 2, 2}, Shape{8192, 128, 3, 1}, Shape{2048, 128, 1, 1},
                         Shape{1000, 100, 3, 4}, Shape{64, 64, 1, 1}, Shape{26, 2, 13, 1}, Shape{4096, 64, 4, 4}}) {
    const SketchSpec spec = make_block_spec(SketchHash::kPermuted, s.d, s.block_rows, s.kappa, s.block_nnz);
    check_exact(spec, 5000, 70, 2, 0, 1);
    check_exact(spec, 3001, 33, 1, 100003, 3);
  }
  check_exact(make_block_spec(SketchHash::kPermuted, 256, 128, 2, 2), 2500, 257, 1, (std::int64_t{1} << 40) + 77, 2);
}

TEST_CASE("Equal bits from run to run hold for the independent hash") {
  const RealData data = make_real_data(30000, 64);
  SketchSpec spec = spec_of(256, 4);
  spec.hash = SketchHash::kIndependent;
  const std::vector<float> first = engine_sketch(spec, data.slab(), data.rhs(), 1);
  for (int run = 0; run < 9; ++run) CHECK(engine_sketch(spec, data.slab(), data.rhs(), 1) == first);
}

TEST_CASE("The engine equals the oracle for FP16 and BF16 input, all strip widths and clusters, odd and even entries") {
  for (const ElementType type : kHalfTypes) {
    for (const int zeta : {1, 2, 4, 8}) {
      // W = 64 with one CTA and two, W = 32 and W = 16 with two.
      for (const std::int64_t d : {64, 512, 520, 1024, 1032, 2048, 2056, 4096})
        check_exact(spec_of(d, zeta), 4099, 71, 1, 0, 1, type);
    }
    for (const int zeta : {3, 5, 7, 16}) check_exact(spec_of(zeta * 32, zeta), 2001, 71, 1, 0, 1, type);
  }
}

TEST_CASE("The engine equals the oracle for FP16 and BF16 input of any width (C-34)") {
  for (const ElementType type : kHalfTypes) {
    // n <= 16 and n <= 32 have narrower strips than d alone asks for.
    for (const std::int64_t n : {1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 129, 1023})
      check_exact(spec_of(128, 4), 1501, n, 2, 0, 1, type);
  }
}

TEST_CASE("Batches of FP16 and BF16 rows cut by slabs, chunks and the end of the matrix change nothing (C-34)") {
  for (const ElementType type : kHalfTypes) {
    for (const std::int64_t first : {std::int64_t{1}, std::int64_t{513}, (std::int64_t{1} << 40) + 77}) {
      for (const int pieces : {1, 2, 7}) check_exact(spec_of(128, 4), 1777, 37, 3, first, pieces, type);
      check_exact(spec_of(2048, 4), 2601, 37, 1, first, 3, type);
      check_exact(spec_of(2048, 1), 2601, 37, 1, first, 3, type);
    }
    check_exact(spec_of(128, 4), 1, 37, 1, 5, 1, type);
  }
}

TEST_CASE("FP16 and BF16 input that the engine does not read as it is gets converted: independent hash, d above 4096") {
  for (const ElementType type : kHalfTypes) {
    SketchSpec independent = spec_of(300, 3);
    independent.hash = SketchHash::kIndependent;
    check_exact(independent, 3001, 71, 2, 77, 2, type);
    check_exact(spec_of(8192, 4), 3001, 71, 1, 513, 3, type);
  }
}

TEST_CASE("FP16 sums keep FP32's accuracy, subnormal halves included, and equal bits from run to run") {
  const std::int64_t rows = 60000, n = 96;
  const SketchSpec spec = spec_of(256, 4);
  std::vector<std::uint16_t> a(static_cast<std::size_t>(rows * n));
  // Magnitudes from 2^-24 (the least subnormal) to about 1.
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = float_to_half(std::ldexp(static_cast<float>(std::sin(0.1 * static_cast<double>(i % 100003))),
                                    -static_cast<int>(i / static_cast<std::size_t>(n) % 25)));
  const std::vector<float> b(static_cast<std::size_t>(rows), 1.0F);
  const SlabView slab{a.data(), rows, n, n, ElementType::kFloat16, 0};
  const SlabView b_slab{b.data(), rows, 1, 1, ElementType::kFloat32, 0};
  const std::vector<float> first = engine_sketch(spec, slab, b_slab, 1);
  for (int run = 0; run < 9; ++run) CHECK(engine_sketch(spec, slab, b_slab, 1) == first);
  const std::vector<double> oracle = oracle_sketch(spec, slab, b_slab);
  double worst = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) worst = std::max(worst, std::fabs(first[i] - oracle[i]));
  // As for FP32 above: below 938 roundings of sums of size about 31.
  CHECK(worst < 938 * 31 * 6e-8);
}

TEST_CASE("Right-hand sides beyond 65535 groups of columns stay within CUDA's grid limits (C-21)") {
  struct Shape {
    std::int64_t d, r;
  };
  // Four columns a block, of which the last group is cut; and one, because so many sketch rows leave no room for more.
  for (const Shape& s : {Shape{64, 4 * 65535 + 3}, Shape{8192, 65537}}) {
    const std::int64_t rows = 20;
    const SketchSpec spec = spec_of(s.d, 4);
    const cuda::StripPlan plan = cuda::make_strip_plan(spec, 8, limits_of_current_device());
    REQUIRE(plan.served);
    std::vector<float> b(static_cast<std::size_t>(rows * s.r));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < s.r; ++k)
        b[static_cast<std::size_t>(i * s.r + k)] = static_cast<float>((5 * i + k) % 17 - 8);
    }
    const SlabView host_b{b.data(), rows, s.r, s.r, ElementType::kFloat32, 0};
    const auto device_b = to_device(host_b);
    SlabView slab = host_b;
    slab.data = device_b.data();

    const CudaStream stream;
    const cuda::TileRange tiles = cuda::tiles_of_rows(plan, spec, 0, rows);
    DeviceBuffer<std::byte> table(tiles.count * plan.table_bytes_per_tile());
    check(cuda::fill_strip_table(spec, plan, tiles, 0, table.data(), stream.get()));
    // A block has a tile at least, so that far less than narrow_partial_floats serves here (2 GB, not 1 TB).
    DeviceBuffer<float> partials(tiles.count * plan.cluster * plan.slots() * s.r);
    DeviceBuffer<float> sketch(s.d * s.r);
    check(cudaMemset(sketch.data(), 0, sketch.bytes()));
    check(cuda::strip_sketch_narrow(spec, plan, slab, table.data(), tiles, partials.data(),
                                    {sketch.data(), s.d, s.r, s.r}, stream.get()));
    stream.synchronize();
    std::vector<float> got(static_cast<std::size_t>(s.d * s.r)), expected(got.size(), 0.0F);
    check(cudaMemcpy(got.data(), sketch.data(), sketch.bytes(), cudaMemcpyDeviceToHost));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (int t = 0; t < spec.zeta; ++t) {
        const SketchEntry entry = sketch_entry(spec, i, t);
        const float sign = entry.negative ? -1.0F : 1.0F;
        for (std::int64_t k = 0; k < s.r; ++k)
          expected[static_cast<std::size_t>(entry.sketch_row * s.r + k)] +=
              sign * b[static_cast<std::size_t>(i * s.r + k)];
      }
    }
    INFO("d " << s.d << " r " << s.r);
    CHECK((got == expected));  // in brackets: a failure must not print them
  }
}

TEST_CASE("The planner refuses what the engine cannot do") {
  SketchSpec spec = spec_of(128, 4);
  CHECK(cuda::make_strip_plan(spec, 10, {}).served);
  spec.precision = SketchPrecision::kFp16;
  CHECK_FALSE(cuda::make_strip_plan(spec, 10, {}).served);
  CHECK_FALSE(cuda::make_strip_plan(spec_of(16384, 4), 10, {}).served);
  CHECK_FALSE(cuda::make_strip_plan(spec_of(17 * 32, 17), 10, {}).served);
}
