// A sum is the cheapest loop that must read everything; eight independent sums keep the load ports busy.
#include "kernels/read_pass_host.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/host_device.h"

namespace tallsketch::host {
namespace {

constexpr std::int64_t kLane = 16;
constexpr std::int64_t kSums = 8;
constexpr std::int64_t kSliceBytes = std::int64_t{4} << 20;  // rows of one task: long streams, enough tasks to balance

using Float16Lanes = float __attribute__((vector_size(64)));

TALLSKETCH_VECTOR_CLONES
double sum_of(const float* from, std::int64_t count) {
  Float16Lanes sum[kSums] = {};
  std::int64_t k = 0;
  for (; k + kSums * kLane <= count; k += kSums * kLane) {
    for (int v = 0; v < kSums; ++v) {
      Float16Lanes value;
      std::memcpy(&value, from + k + v * kLane, sizeof value);
      sum[v] += value;
    }
  }
  double total = 0;
  for (; k < count; ++k) total += static_cast<double>(from[k]);
  for (int v = 0; v < kSums; ++v) {
    for (int j = 0; j < kLane; ++j) total += static_cast<double>(sum[v][j]);
  }
  return total;
}

}  // namespace

double read_pass(const SlabView& slab, int threads) {
  assert(slab.type == ElementType::kFloat32);
  const auto* data = static_cast<const float*>(slab.data);
  const std::int64_t slice = std::max<std::int64_t>(1, kSliceBytes / (4 * std::max<std::int64_t>(1, slab.cols)));
  double total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total) schedule(static)
  for (std::int64_t row = 0; row < slab.rows; row += slice) {
    const std::int64_t rows = std::min(slice, slab.rows - row);
    if (slab.pitch == slab.cols) {
      total += sum_of(data + row * slab.pitch, rows * slab.cols);
    } else {
      for (std::int64_t k = 0; k < rows; ++k) total += sum_of(data + (row + k) * slab.pitch, slab.cols);
    }
  }
  return total;
}

}  // namespace tallsketch::host
