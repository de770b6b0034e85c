// Paper B's kernels: FlashSketch against the oracle bit for bit on integers, FlashBlockRow against its rule.
#include <vector>

#include "kernels/flash.h"
#include "kernels/signed_entry.h"
#include "kernels/sketch_cuda.h"
#include "src/cuda_flash.h"
#include "src/cuda_handles.h"
#include "tests/support/catch.h"
#include "tests/support/device_data.h"
#include "tests/support/error_kind.h"
#include "tests/support/exact_data.h"
#include "tests/support/oracle.h"
#include "tests/support/specs.h"

using namespace tallsketch;

namespace {

/// The sketch of the exact matrix, its rows given in pieces. The padding is NaN: whatever reads it is found out.
void check_flash(const SketchSpec& spec, std::int64_t first_row, std::int64_t rows, std::int64_t n, int pieces = 1) {
  require_flash(spec);
  const std::int64_t pitch = n + 3;
  const std::vector<float> matrix = make_exact_matrix<float>(first_row, rows, 0, n, pitch);
  const SlabView host{matrix.data(), rows, n, pitch, ElementType::kFloat32, first_row};
  const std::vector<double> oracle = oracle_sketch(spec, host, {nullptr, rows, 0, 0});
  const auto device = to_device(matrix);
  auto sketch = zeros<float>(spec.d * n);
  for (int piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
    SlabView slab = rows_of({device.data(), rows, n, pitch, ElementType::kFloat32, first_row}, begin, end - begin);
    const auto entries = entries_of(spec, slab.first_row, slab.rows);
    check(cuda::flash_fp32(spec, slab, entries.data(), {sketch.data(), spec.d, n, n}, nullptr));
    check(cudaDeviceSynchronize());
  }
  const std::vector<float> got = to_host(sketch);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) wrong += static_cast<double>(got[i]) == oracle[i] ? 0 : 1;
  INFO("d " << spec.d << " B_r " << spec.block_rows << " kappa " << spec.kappa << " s " << spec.block_nnz << " hash "
            << static_cast<int>(spec.hash) << " m if contiguous " << spec.total_rows << " rows " << first_row << " + "
            << rows << " n " << n << " pieces " << pieces);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("FlashSketch equals the oracle for every kappa, s, hash and kind of input blocks, m and n odd") {
  const std::int64_t m = 1237;  // not a multiple of the 6 or 3 blocks
  for (const SketchHash hash : {SketchHash::kPermuted, SketchHash::kIndependent}) {
    for (const std::int64_t total_rows : {std::int64_t{0}, m}) {
      for (const int kappa : {1, 2, 3}) {
        for (const int nnz : {1, 2, 4}) {
          check_flash(make_block_spec(hash, 384, 64, kappa, nnz, total_rows), 0, m, 37);
          check_flash(make_block_spec(hash, 384, 128, kappa, nnz, total_rows), 0, m, 33);
        }
      }
    }
  }
}

TEST_CASE("FlashSketch equals the oracle for other heights and widths, up to what shared memory holds") {
  for (const std::int64_t n : {1, 31, 32, 64, 65}) {
    check_flash(make_block_spec(SketchHash::kPermuted, 96, 32, 2, 2), 0, 999, n);
  }
  check_flash(make_block_spec(SketchHash::kPermuted, 40, 8, 5, 8), 0, 1000, 5);
  check_flash(make_block_spec(SketchHash::kIndependent, 40, 40, 1, 40), 0, 700, 3);  // s beyond a warp
  check_flash(make_block_spec(SketchHash::kIndependent, 1024, 512, 2, 2), 0, 3001, 33);
  check_flash(make_block_spec(SketchHash::kPermuted, 128, 128, 1, 2), 0, 5, 3);  // fewer rows than anything
}

TEST_CASE("FlashSketch adds pieces of a matrix that begin anywhere, with and without row slices") {
  for (const std::int64_t total_rows : {std::int64_t{0}, std::int64_t{5000}}) {
    check_flash(make_block_spec(SketchHash::kPermuted, 320, 64, 2, 2, total_rows), 1003, 2001, 35, 3);
    // 200 blocks x 9 strips: no slices on any GPU of up to 225 multiprocessors.
    check_flash(make_block_spec(SketchHash::kPermuted, 1600, 8, 2, 2, total_rows), 1003, 2001, 257, 2);
  }
}

TEST_CASE("FlashSketch is refused for what it cannot do") {
  const auto refusal = [](const SketchSpec& spec) { return error_kind_of([&] { require_flash(spec); }); };
  CHECK(refusal(make_spec(SketchHash::kPermuted, 128, 4)) == ErrorKind::kUsage);
  SketchSpec half = make_block_spec(SketchHash::kPermuted, 256, 128, 2, 2);
  CHECK_FALSE(refusal(half));
  half.precision = SketchPrecision::kFp16;
  CHECK(refusal(half) == ErrorKind::kUsage);
  CHECK(refusal(make_block_spec(SketchHash::kPermuted, 8192, 4096, 2, 2)) == ErrorKind::kUsage);
}

TEST_CASE("FlashBlockRow equals its rule evaluated on the host, a short last block included") {
  for (const std::int64_t m : {1, 127, 128, 1000, 4096}) {
    for (const auto& [kappa, nnz] : {std::pair<int, int>{1, 1}, {2, 2}, {3, 5}, {4, kMaxBlockRowNnz}}) {
      const std::int64_t n = 45, pitch = 47, d = 384;
      const BlockRowSpec spec{99, m, d, kappa, nnz};
      const std::vector<float> matrix = make_exact_matrix<float>(0, m, 0, n, pitch);
      const auto device = to_device(matrix);
      DeviceBuffer<float> sketch(d * n);
      check(cuda::flash_block_row(spec, {device.data(), m, n, pitch, ElementType::kFloat32, 0},
                                  {sketch.data(), d, n, n}, nullptr));
      const std::vector<float> got = to_host(sketch);
      const float scale = block_row_scale(spec);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < d; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;  // of small integers: exact
          for (std::int32_t l = 0; l < kappa; ++l) {
            const SampledBlock block = sampled_block(spec, i / kBlockRowSize, l);
            for (std::int32_t u = 0; u < nnz; ++u) {
              const std::uint32_t entry = sampled_row(spec, i, l, u, block.rows);
              const std::int64_t row = block.first + entry_row(entry);
              sum += with_sign(matrix[static_cast<std::size_t>(row * pitch + j)], entry);
            }
          }
          wrong += got[static_cast<std::size_t>(i * n + j)] == scale * sum ? 0 : 1;
        }
      }
      INFO("m " << m << " kappa " << kappa << " s " << nnz);
      CHECK(wrong == 0);
    }
  }
}
