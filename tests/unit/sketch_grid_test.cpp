// The grid of bench sketch: which combinations become cases, which are skipped and why; its options.
#include <algorithm>
#include <string>
#include <vector>

#include "src/sketch_grid.h"
#include "tests/support/catch.h"
#include "tests/support/parsed_options.h"

using namespace tallsketch;

namespace {

struct Grid {
  std::vector<SketchCase> cases;
  std::vector<std::string> skipped;
};

Grid grid_of(const BenchSketchOptions& options) {
  Grid grid;
  grid.cases = make_sketch_grid(options, [&](const std::string& line) { grid.skipped.push_back(line); });
  return grid;
}

bool is_skipped(const Grid& grid, const std::string& words) {
  return std::any_of(grid.skipped.begin(), grid.skipped.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

std::string parse(BenchSketchOptions& options, std::vector<std::string> arguments) {
  return parse(add_bench_sketch_options, options, std::move(arguments));
}

}  // namespace

TEST_CASE("Lists of the bench options are split at commas, every one of them") {
  BenchSketchOptions options;
  REQUIRE(parse(options, {"--family",
                          "sparsestack,blockperm,flashblockrow",
                          "--hash=permuted,independent",
                          "--zeta",
                          "1,2",
                          "--kappa",
                          "1,2,4",
                          "--block-nnz",
                          "1,8",
                          "--block-rows",
                          "64,128",
                          "--input-blocks",
                          "interleaved,contiguous",
                          "--precision",
                          "fp32,fp16",
                          "--kernel",
                          "auto,strip,scatter,flash,spmm,gaussian",
                          "--cols",
                          "7,8",
                          "--rows",
                          "1001,4096",
                          "--sketch-rows",
                          "128,256"}) == "");
  CHECK(options.family.size() == 3);
  CHECK(options.hash.size() == 2);
  CHECK(options.zeta == std::vector<int>{1, 2});
  CHECK(options.kappa == std::vector<int>{1, 2, 4});
  CHECK(options.block_nnz == std::vector<int>{1, 8});
  CHECK(options.block_rows == std::vector<std::int64_t>{64, 128});
  CHECK(options.input_blocks.size() == 2);
  CHECK(options.precision.size() == 2);
  CHECK(options.kernel.size() == 6);
  CHECK(options.rows == std::vector<std::int64_t>{1001, 4096});
  CHECK(options.sketch_rows == std::vector<std::int64_t>{128, 256});
}

TEST_CASE("Rows exclude bytes, and sketch rows exclude the oversampling") {
  BenchSketchOptions options;
  CHECK(parse(options, {"--rows", "100", "--bytes", "1M"}) != "");
  CHECK(parse(options, {"--sketch-rows", "100", "--oversample", "2"}) != "");
  for (const char* wrong : {"--rows=0", "--sketch-rows=0", "--kappa=0", "--block-nnz=1025", "--block-rows=65537",
                            "--family=gaussian", "--kernel=cusparse", "--input-blocks=odd"}) {
    INFO(wrong);
    BenchSketchOptions other;
    CHECK(parse(other, {wrong}) != "");
  }
}

TEST_CASE("The grid is the product of the lists of each family") {
  BenchSketchOptions options;
  options.cols = {5, 64};
  options.rows = {1001, 4096, 4097};
  options.oversample = {2, 4};
  options.family = {BenchFamily::kSparseStack, BenchFamily::kBlockPerm, BenchFamily::kFlashBlockRow};
  options.hash = {SketchHash::kPermuted, SketchHash::kIndependent};
  options.zeta = {1, 2, 4};
  options.kappa = {1};
  options.block_nnz = {1, 2};
  options.block_rows = {64, 128};
  options.input_blocks = {InputBlocks::kInterleaved, InputBlocks::kContiguous};
  const Grid grid = grid_of(options);
  CHECK(grid.skipped.empty());
  const auto of_family = [&](BenchFamily family) {
    return std::count_if(grid.cases.begin(), grid.cases.end(), [&](const SketchCase& c) { return c.family == family; });
  };
  CHECK(of_family(BenchFamily::kSparseStack) == 2 * 3 * 2 * 3 * 2);        // n, m, d, zeta, hash
  CHECK(of_family(BenchFamily::kBlockPerm) == 2 * 3 * 2 * 2 * 2 * 2 * 2);  // n, m, d, s, B_r, blocks, hash
  CHECK(of_family(BenchFamily::kFlashBlockRow) == 2 * 3 * 2 * 2);          // n, m, d, s
  for (const SketchCase& c : grid.cases) {
    CHECK(c.spec.d > c.shape.n);
    CHECK((c.family == BenchFamily::kBlockPerm) == (c.spec.family == SketchFamily::kBlockPerm));
    if (c.family == BenchFamily::kFlashBlockRow) CHECK(c.spec.d % 128 == 0);
  }
}

TEST_CASE("Bytes give whole rows, and too few are skipped with what to do") {
  BenchSketchOptions options;
  options.cols = {3, 100};
  options.bytes = 399;
  const Grid grid = grid_of(options);
  REQUIRE(grid.cases.size() == 1);
  CHECK(grid.cases[0].shape.m == 33);
  CHECK(is_skipped(grid, "--bytes 399 with n = 100 leaves no rows"));
}

TEST_CASE("Combinations that do not exist are skipped, one line each, and the rest is measured") {
  BenchSketchOptions options;
  options.cols = {64};
  options.rows = {3000};
  options.family = {BenchFamily::kSparseStack, BenchFamily::kBlockPerm, BenchFamily::kFlashBlockRow};
  options.kappa = {1, 2};
  options.block_nnz = {2, 3};
  options.kernel = {BenchKernel::kAuto, BenchKernel::kFlash, BenchKernel::kSpmm};
  const Grid grid = grid_of(options);  // d = 128: one block of 128
  CHECK(is_skipped(grid, "--kappa 2 exceeds the 1 block"));
  CHECK(is_skipped(grid, "--block-nnz 3 does not divide"));
  CHECK(is_skipped(grid, "flash applies blockperm sketches only"));
  CHECK(is_skipped(grid, "flashblockrow has one kernel"));
  // sparsestack: auto, spmm; blockperm (1, 2): three kernels; flashblockrow: kappa x s, auto.
  CHECK(grid.cases.size() == 2 + 3 + 4);
  CHECK(grid.skipped.size() == 1 + 3 + 4 * 2);  // flash; (1, 3), (2, 2), (2, 3); two kernels of each flashblockrow
}

TEST_CASE("Baselines refuse 16-bit sketches and b; a sparse matrix of 2^31 nonzeros is too large") {
  BenchSketchOptions options;
  options.cols = {8};
  options.rows = {1000};
  options.kernel = {BenchKernel::kSpmm, BenchKernel::kGaussian};
  CHECK(grid_of(options).cases.size() == 2);
  options.precision = {SketchPrecision::kFp16};
  CHECK(grid_of(options).cases.empty());
  options.precision = {SketchPrecision::kFp32};
  options.rhs = 1;
  CHECK(is_skipped(grid_of(options), "--rhs 0"));
  options.rhs = 0;
  options.kernel = {BenchKernel::kSpmm};
  options.rows = {(std::int64_t{1} << 29) - 1};
  CHECK(grid_of(options).cases.size() == 1);
  options.rows = {std::int64_t{1} << 29};
  CHECK(is_skipped(grid_of(options), "2^31 - 1 nonzeros"));
}

TEST_CASE("An fp64 sketch has one rounding and takes A in FP64 too; no other sketch does, and no baseline") {
  BenchSketchOptions options;
  options.cols = {8};
  options.rows = {1000};
  options.dtype = {ElementType::kFloat32, ElementType::kFloat64};
  options.precision = {SketchPrecision::kFp64};
  options.rounding = {SketchRounding::kNearest, SketchRounding::kStochastic};
  CHECK(grid_of(options).cases.size() == 2);
  options.rounding = {SketchRounding::kStochastic, SketchRounding::kDither};
  CHECK(grid_of(options).cases.empty());
  CHECK(is_skipped(grid_of(options), "--rounding stochastic"));
  options.rounding = {SketchRounding::kNearest};
  options.kernel = {BenchKernel::kSpmm};
  CHECK(is_skipped(grid_of(options), "fp32 alone"));
  options.kernel = {BenchKernel::kAuto};
  options.precision = {SketchPrecision::kFp32, SketchPrecision::kBf16};
  options.dtype = {ElementType::kFloat64};
  CHECK(grid_of(options).cases.empty());
  CHECK(is_skipped(grid_of(options), "--dtype f8"));
}

TEST_CASE("A dense sketch of d rows is measured once") {
  BenchSketchOptions options;
  options.cols = {64};
  options.rows = {1000, 2000};
  options.zeta = {1, 2, 4};
  options.hash = {SketchHash::kPermuted, SketchHash::kIndependent};
  options.kernel = {BenchKernel::kGaussian};
  const Grid grid = grid_of(options);
  CHECK(grid.cases.size() == 2);
  CHECK(grid.skipped.empty());
}
