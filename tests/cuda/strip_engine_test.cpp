// The strip engine against the dense oracle, bit for bit on integers: every zeta, widths, cuts, all three strip widths;
// equal bits from run to run on real numbers.
#include <cmath>
#include <vector>

#include "kernels/sketch_rule.h"
#include "src/cuda_strip.h"
#include "tests/support/catch.h"
#include "tests/support/exact_data.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

SketchSpec spec_of(std::int64_t d, int zeta) { return make_spec(SketchHash::kPermuted, d, zeta, 99); }

template <class T>
DeviceBuffer<T> to_device(const std::vector<T>& host) {
  DeviceBuffer<T> device(static_cast<std::int64_t>(host.size()));
  if (!host.empty()) check(cudaMemcpy(device.data(), host.data(), device.bytes(), cudaMemcpyHostToDevice));
  return device;
}

/// Sketch (d, n + r) of a slab by the engine, its rows given in `cuts` + 1 pieces.
std::vector<float> engine_sketch(const SketchSpec& spec, const std::vector<float>& a, const std::vector<float>& b,
                                 std::int64_t rows, std::int64_t n, std::int64_t r, std::int64_t pitch,
                                 std::int64_t first_row, int pieces) {
  const CudaStream stream;
  const auto device_a = to_device(a), device_b = to_device(b);
  DeviceBuffer<float> sketch(spec.d * (n + r));
  check(cudaMemset(sketch.data(), 0, sketch.bytes()));
  StripSketcher sketcher(spec, n, r, (rows + pieces - 1) / pieces);
  for (int piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
    sketcher.add({device_a.data() + begin * pitch, end - begin, n, pitch, ElementType::kFloat32, first_row + begin},
                 {device_b.data() + begin * r, end - begin, r, r, ElementType::kFloat32, first_row + begin},
                 {sketch.data(), spec.d, n, n + r}, {sketch.data() + n, spec.d, r, n + r}, stream);
  }
  stream.synchronize();
  std::vector<float> host(static_cast<std::size_t>(sketch.count()));
  check(cudaMemcpy(host.data(), sketch.data(), sketch.bytes(), cudaMemcpyDeviceToHost));
  return host;
}

/// The padding of the exact matrix is NaN: whatever reads it into the sketch is found out.
void check_exact_with_pitch(const SketchSpec& spec, std::int64_t rows, std::int64_t n, std::int64_t r,
                            std::int64_t first_row, int pieces, std::int64_t pitch) {
  REQUIRE(StripSketcher::serves(spec, n));
  const std::vector<float> a = make_exact_matrix<float>(first_row, rows, 0, n, pitch);
  const std::vector<float> b = make_exact_matrix<float>(first_row, rows, n, r, r);
  const std::vector<double> oracle = oracle_sketch(spec, {a.data(), rows, n, pitch, ElementType::kFloat32, first_row},
                                                   {b.data(), rows, r, r, ElementType::kFloat32, first_row});
  const std::vector<float> got = engine_sketch(spec, a, b, rows, n, r, pitch, first_row, pieces);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) wrong += static_cast<double>(got[i]) == oracle[i] ? 0 : 1;
  INFO("d " << spec.d << " zeta " << spec.zeta << " T " << spec.batch_rows << " rows " << rows << " n " << n << " r "
            << r << " first row " << first_row << " pieces " << pieces);
  CHECK(wrong == 0);
}

/// With the backend's pitch, and with the least that the engine takes, where strips are cut by the end of the row.
void check_exact(const SketchSpec& spec, std::int64_t rows, std::int64_t n, std::int64_t r, std::int64_t first_row,
                 int pieces) {
  check_exact_with_pitch(spec, rows, n, r, first_row, pieces, cuda::device_pitch(n));
  check_exact_with_pitch(spec, rows, n, r, first_row, pieces, (n + 3) / 4 * 4);
}

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
                                {8192, 16}}) {
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
}

TEST_CASE("The engine gives equal bits from run to run on real numbers, and the oracle's values to rounding") {
  const std::int64_t rows = 60000, n = 96;
  const SketchSpec spec = spec_of(256, 4);
  std::vector<float> a(static_cast<std::size_t>(rows * n)), b(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i % 100003)));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(std::cos(0.3 * static_cast<double>(i)));
  const std::vector<float> first = engine_sketch(spec, a, b, rows, n, 1, n, 0, 1);
  for (int run = 0; run < 9; ++run) CHECK(engine_sketch(spec, a, b, rows, n, 1, n, 0, 1) == first);
  const std::vector<double> oracle = oracle_sketch(spec, {a.data(), rows, n, n, ElementType::kFloat32, 0},
                                                   {b.data(), rows, 1, 1, ElementType::kFloat32, 0});
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
  const std::int64_t rows = 30000, n = 64;
  SketchSpec spec = spec_of(256, 4);
  spec.hash = SketchHash::kIndependent;
  std::vector<float> a(static_cast<std::size_t>(rows * n)), b(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i % 100003)));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(std::cos(0.3 * static_cast<double>(i)));
  const std::vector<float> first = engine_sketch(spec, a, b, rows, n, 1, n, 0, 1);
  for (int run = 0; run < 9; ++run) CHECK(engine_sketch(spec, a, b, rows, n, 1, n, 0, 1) == first);
}

TEST_CASE("The planner refuses what the engine cannot do") {
  SketchSpec spec = spec_of(128, 4);
  CHECK(cuda::make_strip_plan(spec, 10, {}).served);
  spec.precision = SketchPrecision::kFp16;
  CHECK_FALSE(cuda::make_strip_plan(spec, 10, {}).served);
  CHECK_FALSE(cuda::make_strip_plan(spec_of(16384, 4), 10, {}).served);
  CHECK_FALSE(cuda::make_strip_plan(spec_of(17 * 32, 17), 10, {}).served);
}
