// HostGram: the FP64 Gram matrix [A | b]^T [A | b] of rows that come in chunks, on the host.
// Called by host_backend: of the rows, the normal equations as preconditioner; of the sketch, on the way to Cholesky. Needs n >= 1, r >= 0, threads >= 1.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/check_rows.h"
#include "kernels/views.h"
#include "src/host_buffer.h"

namespace tallsketch {

class HostGram {
 public:
  /// For many rows, and for so few that more segments would stay empty: a sketch.
  static constexpr std::int64_t kMostSegments = 64, kSegmentsOfSketch = 8;

  /// Starts from no rows.
  /// Errors  kMemory, when bytes(n, r, threads) cannot be had
  HostGram(std::int64_t n, std::int64_t r, int threads, std::int64_t most_segments = kMostSegments);

  /// What the constructor allocates. With N = n + r rounded up to 8, high and low parts of a triangle take 8 N (N + 8)
  /// bytes: once, or up to most_segments times while that is at most as many MiB; for each thread at most 1 MiB of tiles
  /// more.
  static std::int64_t bytes(std::int64_t n, std::int64_t r, int threads, std::int64_t most_segments = kMostSegments);

  /// Adds the rows of a chunk.
  /// a       in (rows, n) row-major host FP16, BF16, FP32 or FP64
  /// b       in (rows, r) row-major host FP64
  /// Limits  entries are widened exactly; products and sums in FP64. What overflows comes out as an infinity or a NaN
  /// Order   runs of 256 rows, one row after the other; each run is added with compensation to its segment, one of up
  ///         to most_segments groups of consecutive rows of a chunk. Fixed by that, n, r and the chunks, never by the number of threads;
  ///         processors without FMA round differently
  /// Error   to first order in u = 2^-53, for any number of rows: an entry is within 260 u of the exact one, relative
  ///         to the sum of the magnitudes of its products
  /// Cost    rows (n + r)^2 operations, what lies below the diagonal left out but for tiles of 8 x 8; A is read
  ///         (n + r) / 256 + 1 times. No BLAS: in place of it OpenBLAS 0.3.21's dsyrk on widened tiles takes 1.1 to 1.6
  ///         times as long at n = 16 ... 100, 0.85 to 1.05 at n = 256 and 1024 (one thread of Zen 4), and its threads,
  ///         on cores that others use too, wait for each other for many times as long as they compute
  void add(const SlabView& a, const SlabView& b);

  /// The sum so far: (n + r, n + r) column-major, upper triangle, zeros below it.
  std::vector<double> upper() const;

 private:
  std::int64_t n_, r_, most_segments_;
  int threads_;
  HostBuffer sums_;   // (segments, upper tiles, high and low, 8, 8)
  HostBuffer tiles_;  // (threads, 2, columns of a block, rows of a run)
};

/// The FP64 Gram matrix of a sketch, as HostGram::upper gives it.
/// sketch  in (d, n + r) row-major, FP32 or FP64
/// unused  rows of it that are left out
template <class T>
std::vector<double> gram_of_sketch(const std::vector<T>& sketch, std::int64_t n, std::int64_t r,
                                   const CheckRows& unused, int threads);

}  // namespace tallsketch
