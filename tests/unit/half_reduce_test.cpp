// The column exponents of an all-reduce in halves: no overflow for any number of ranks, and no bits given away.
#include "src/half_reduce.h"

#include <cmath>

#include "kernels/half.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

std::uint16_t add(std::uint16_t a, std::uint16_t b) { return float_to_half(half_to_float(a) + half_to_float(b)); }

/// Sum of `ranks` equal numbers, one after the other and as a tree.
std::uint16_t sum_in_turn(std::uint16_t value, int ranks) {
  std::uint16_t sum = value;
  for (int k = 1; k < ranks; ++k) sum = add(sum, value);
  return sum;
}
std::uint16_t sum_as_tree(std::uint16_t value, int ranks) {
  if (ranks == 1) return value;
  return add(sum_as_tree(value, ranks / 2), sum_as_tree(value, ranks - ranks / 2));
}

}  // namespace

TEST_CASE("Equal largest elements of all ranks sum without overflow, and use a quarter of the range at least (C-33)") {
  const std::vector<double> largest = {1.0F, std::nextafterf(2.0F, 0.0F), 3.4e38F, 1e-38F, 1e-45F, 65504.0F, 0x1.ffcp0F,
                                       7.0F};
  for (const int ranks : {1, 2, 3, 4, 5, 8, 9, 1000, 2048, 2049, 10000}) {
    const std::vector<int> exponent = half_reduce_exponents(largest, ranks);
    for (std::size_t j = 0; j < largest.size(); ++j) {
      const double scaled = std::ldexp(largest[j], exponent[j]);
      INFO("ranks " << ranks << " largest " << largest[j] << " scaled " << scaled);
      CHECK(scaled * ranks < 0x1p15);
      CHECK(scaled * ranks >= 0x1p13);
      const std::uint16_t half = double_to_half(scaled);
      CHECK(std::isfinite(half_to_float(sum_in_turn(half, ranks))));
      CHECK(std::isfinite(half_to_float(sum_as_tree(half, ranks))));
    }
  }
}

TEST_CASE("Columns of zeros and columns that are not finite are left as they are") {
  CHECK(half_reduce_exponents({0.0F, INFINITY, std::nanf("")}, 4) == std::vector<int>{0, 0, 0});
}
