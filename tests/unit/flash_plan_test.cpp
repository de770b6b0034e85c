// How paper B's kernel finds the rows of an input block in a slab, its slices and its shared memory.
#include <set>
#include <vector>

#include "kernels/flash_plan.h"
#include "tests/support/catch.h"
#include "tests/support/specs.h"

using namespace tallsketch;

TEST_CASE("The rows of all input blocks are the rows of the slab, each in its block, wherever the slab begins") {
  const std::int64_t m = 1003;
  for (const bool contiguous : {false, true}) {
    for (const std::int64_t blocks : {1, 2, 5, 8, 40}) {
      const SketchSpec spec = make_block_spec(SketchHash::kPermuted, blocks * 32, 32, 1, 2, contiguous ? m : 0);
      for (const auto& [first_row, rows] :
           {std::pair<std::int64_t, std::int64_t>{0, m}, {0, 3}, {77, 500}, {m - 1, 1}, {10, 0}}) {
        std::set<std::int64_t> seen;
        bool own = true;
        for (std::int64_t h = 0; h < blocks; ++h) {
          const cuda::BlockRows found = cuda::rows_of_input_block(spec, h, first_row, rows);
          for (std::int64_t i = 0; i < found.count; ++i) {
            const std::int64_t row = found.first + i * found.stride;
            own = own && row >= 0 && row < rows && input_block_of_row(spec, first_row + row) == h;
            seen.insert(row);
          }
        }
        INFO("contiguous " << contiguous << " blocks " << blocks << " rows " << first_row << " + " << rows);
        CHECK(own);
        CHECK(static_cast<std::int64_t>(seen.size()) == rows);
      }
    }
  }
}

TEST_CASE("Rows are sliced where the sketch has fewer than eight tiles a multiprocessor, up to sixteen times") {
  const auto slices = [](std::int64_t d, std::int64_t block_rows, std::int64_t cols) {
    return cuda::flash_slices(make_block_spec(SketchHash::kPermuted, d, block_rows, 1, 2), cols, 132);
  };
  CHECK(slices(2048, 128, 1024) == 3);  // 512 tiles for 1056 places
  CHECK(slices(4096, 64, 1024) == 1);   // 2048 tiles
  CHECK(slices(128, 128, 64) == 16);
  CHECK(slices(64, 64, 1) == 16);
}

TEST_CASE("A CTA's tiles for blocks of 128 rows fit into 48 KiB") {
  CHECK(cuda::flash_shared_bytes(make_block_spec(SketchHash::kPermuted, 256, 128, 2, 2)) == 16384 + 16384 + 1024);
  CHECK(cuda::flash_shared_bytes(make_block_spec(SketchHash::kPermuted, 256, 128, 2, 8)) <= 48 * 1024);
}
