// Grid sizes of kernels for row and column counts around CUDA's limits (case C-21).
#include "kernels/launch_shape.h"

#include "tests/support/catch.h"

using namespace tallsketch::cuda;

TEST_CASE("A grid covers small counts once and stays within CUDA's limits for large ones (C-21)") {
  CHECK(blocks_for(0, 32, kMaxGridY) == 1);
  CHECK(blocks_for(1, 32, kMaxGridY) == 1);
  CHECK(blocks_for(32, 32, kMaxGridY) == 1);
  CHECK(blocks_for(33, 32, kMaxGridY) == 2);
  CHECK(blocks_for(65535 * 32, 32, kMaxGridY) == 65535);
  CHECK(blocks_for(65535 * 32 + 1, 32, kMaxGridY) == 65535);  // the first count that would need a block more
  CHECK(blocks_for(65537, 1, kMaxGridY) == 65535);            // n = 65537, a column a block
  CHECK(blocks_for(65536LL * 32 + 1, 32, kMaxGridX) == 65537);
  CHECK(blocks_for(2147483647LL, 1, kMaxGridX) == 2147483647LL);
  CHECK(blocks_for(2147483648LL, 1, kMaxGridX) == 2147483647LL);
  CHECK(blocks_for(65537LL * 3'218'569'051, 256, kMaxGridX) == 2147483647LL);
}
