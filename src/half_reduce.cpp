#include "src/half_reduce.h"

#include <bit>
#include <cmath>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/sketch_factor.h"

namespace tallsketch {

std::vector<int> half_reduce_exponents(const std::vector<double>& largest, int ranks) {
  // A column's largest element comes below 2^15 / ranks. Sums of so many are then below 2^15, half of what a half holds;
  // the other half is for their roundings.
  constexpr int kTop = 15;
  const int headroom = std::bit_width(static_cast<unsigned>(ranks - 1));  // log2(ranks), rounded up
  std::vector<int> exponent(largest.size(), 0);
  for (std::size_t j = 0; j < largest.size(); ++j) {
    if (largest[j] > 0 && std::isfinite(largest[j])) exponent[j] = kTop - headroom - (std::ilogb(largest[j]) + 1);
  }
  return exponent;
}

std::vector<double> agree_on_half_factors(const Communicator& comm, std::vector<double>& largest) {
  comm.max(largest.data(), static_cast<std::int64_t>(largest.size()));
  std::vector<double> factor;
  for (const int exponent : half_reduce_exponents(largest, comm.size())) factor.push_back(std::ldexp(1.0, exponent));
  return factor;
}

void sum_in_halves(const Communicator& comm, std::vector<float>& sketch, std::int64_t d, std::int64_t n,
                   std::int64_t r) {
  if (comm.size() == 1) return;
  const std::int64_t cols = n + r;
  std::vector<double> largest;
  std::vector<std::uint16_t> halves;
  std::vector<float> rest;
  comm.together([&] {
    largest = column_maxima(sketch, d, cols);
    largest.resize(static_cast<std::size_t>(n));
    halves.resize(static_cast<std::size_t>(d * n));
    rest.resize(static_cast<std::size_t>(d * r));
  });
  const std::vector<double> factor = agree_on_half_factors(comm, largest);
  for (std::int64_t i = 0; i < d; ++i) {
    const float* const row = sketch.data() + i * cols;
    for (std::int64_t j = 0; j < n; ++j)
      halves[static_cast<std::size_t>(i * n + j)] = double_to_half(row[j] * factor[static_cast<std::size_t>(j)]);
    std::copy(row + n, row + cols, rest.begin() + i * r);
  }
  comm.sum_halves(halves.data(), d * n);
  comm.sum(rest.data(), d * r);
  for (std::int64_t i = 0; i < d; ++i) {
    float* const row = sketch.data() + i * cols;
    for (std::int64_t j = 0; j < n; ++j) {
      const double half = half_to_double(halves[static_cast<std::size_t>(i * n + j)]);
      row[j] = static_cast<float>(half / factor[static_cast<std::size_t>(j)]);
    }
    std::copy(rest.begin() + i * r, rest.begin() + (i + 1) * r, row + n);
  }
}

}  // namespace tallsketch
