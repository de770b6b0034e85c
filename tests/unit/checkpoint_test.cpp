// Checkpoint files: S of the attempt comes back as it was, whatever the command line says; sizes that contradict the run do not.
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>

#include <unistd.h>

#include <fmt/format.h>

#include "src/atomic_file.h"
#include "src/checkpoint.h"
#include "src/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kCols = 3, kRhs = 2, kSketchRows = 64;

Checkpoint make_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.run = {{"input", "made"}, {"n", fmt::to_string(kCols)}, {"r", fmt::to_string(kRhs)}};
  checkpoint.attempt.fixed_rows = kSketchRows;
  checkpoint.rows = {{0, 10}, {20, 31}};
  for (std::int64_t i = 0; i < kSketchRows * (kCols + kRhs); ++i) {
    checkpoint.sketch.push_back(static_cast<double>(i % 17) - 8);
  }
  checkpoint.b_squares = {5, 7};
  return checkpoint;
}

/// What is read of the file of a checkpoint.
Checkpoint stored(const Checkpoint& checkpoint, const SketchOptions& asked = {}) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("tallsketch-{}.unit.ckpt.h5", ::getpid())).string();
  write_file_atomically(path, checkpoint_image(checkpoint));
  try {
    Checkpoint read = read_checkpoint(path, asked);
    std::remove(path.c_str());
    return read;
  } catch (...) {
    std::remove(path.c_str());
    throw;
  }
}

std::optional<ErrorKind> failure(const std::function<void(Checkpoint&)>& change) {
  Checkpoint checkpoint = make_checkpoint();
  change(checkpoint);
  return error_kind_of([&] { stored(checkpoint); });
}

void check_same_sketch(const SketchOptions& a, const SketchOptions& b) {
  CHECK(a.family == b.family);
  CHECK(a.hash == b.hash);
  CHECK(a.precision == b.precision);
  CHECK(a.rounding == b.rounding);
  CHECK(a.reduce == b.reduce);
  CHECK(a.zeta == b.zeta);
  CHECK(a.kappa == b.kappa);
  CHECK(a.block_nnz == b.block_nnz);
  CHECK(a.block_rows == b.block_rows);
  CHECK(a.input_blocks == b.input_blocks);
  CHECK(a.oversample == b.oversample);
  CHECK(a.sketch_rows == b.sketch_rows);
  CHECK(a.check_rows == b.check_rows);
  CHECK(a.seed == b.seed);
}

}  // namespace

TEST_CASE("All that the attempt's S depends on is stored, and comes back over other options of the command line") {
  SketchOptions stack;
  stack.hash = SketchHash::kIndependent;
  stack.precision = SketchPrecision::kFp64;
  stack.zeta = 3;
  stack.seed = 7;
  stack.oversample = 2.5;
  stack.check_rows = 0;
  SketchOptions blocks;
  blocks.family = SketchFamily::kBlockPerm;
  blocks.kappa = 3;
  blocks.block_nnz = 4;
  blocks.block_rows = 16;
  blocks.input_blocks = InputBlocks::kContiguous;
  blocks.reduce = ReducePrecision::kFp16;
  blocks.sketch_rows = 64;
  blocks.seed = ~std::uint64_t{0};
  for (const SketchOptions& options : {stack, blocks, SketchOptions{}}) {
    for (const SketchOptions& asked : {stack, blocks, SketchOptions{}}) {
      Checkpoint checkpoint = make_checkpoint();
      checkpoint.attempt.sketch = options;
      const Checkpoint read = stored(checkpoint, asked);
      check_same_sketch(read.attempt.sketch, options);
      check_same_sketch(parse_checkpoint(checkpoint_json(checkpoint), "c", asked).attempt.sketch, options);
      CHECK(read.attempt.fixed_rows == kSketchRows);
      CHECK(read.sketch == checkpoint.sketch);
      CHECK(read.b_squares == checkpoint.b_squares);
    }
  }
}

TEST_CASE("Sizes that are not those of the run are refused, whole as the file may be") {
  CHECK_FALSE(failure([](auto&) {}));
  CHECK_FALSE(failure([](auto& c) { c.exponents = {1, 0, -3, 0, 2}; }));
  CHECK(failure([](auto& c) { c.exponents = {1, 0, -3, 0}; }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.exponents = {1, 0, -3, 0, 2, 1}; }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.sketch.resize(kSketchRows * 4); }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.sketch.resize(kSketchRows * 6); }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.b_squares = {5}; }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.run[1].value = fmt::to_string(kCols + 1); }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.run[1].value += "x"; }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.run.pop_back(); }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) {
          c.attempt.compression = Compression::kGram;
          c.sketch.assign(25, 1.0);
          c.sketch[3 * 5 + 3] = 5;  // ||b||^2, which is in b_squares, too
          c.sketch[4 * 5 + 4] = 7 * (1 + 1e-9);
        }) == std::nullopt);
  CHECK(failure([](auto& c) {
          c.attempt.compression = Compression::kGram;
          c.sketch.assign(25, 1.0);
          c.sketch[3 * 5 + 3] = 5;
          c.sketch[4 * 5 + 4] = 7.001;
        }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) { c.b_squares = {5, -7}; }) == ErrorKind::kInput);
  CHECK(failure([](auto& c) {
          c.attempt.compression = Compression::kGram;
          c.sketch.resize(16);
        }) == ErrorKind::kInput);
}
