// CoherenceSweep: orthonormal bases U (m, n) between low coherence and coordinate vectors, as a RowSource.
// Made by the studies and by tests.
#pragma once

#include <cstdint>
#include <vector>

#include "src/options.h"
#include "src/row_source.h"

namespace tallsketch {

/// U(t) = sqrt(t) E + sqrt(1 - t) Q, 0 <= t <= 1. Row k of the head is e_k in E and zero in Q; the other rows of Q are
/// an orthonormal basis of a Gaussian (m - n, n) matrix. So U(t)^T U(t) = t I + (1 - t) I = I without further work, and
/// every head row has leverage t. t = 1 is a coordinate subspace, with the head first [I; 0].
/// b is one column of zeros: a backend sketches [A | b], and a study has no use for b.
class CoherenceSweep final : public RowSource {
 public:
  /// Errors  kUsage unless 1 <= n, 2 n <= m and m n < 2^31 (LAPACK's integers are 32-bit); kMemory
  /// Cost    4 (m - n) n^2 operations of LAPACK, 8 (m - n) n bytes
  CoherenceSweep(std::int64_t m, std::int64_t n, std::uint64_t seed);

  /// The basis that read() delivers from now on; t = 1, head first, before.
  void mix(double coherence, HeadRows head);
  /// max_i ||row i of U||^2.
  double largest_leverage() const;

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  /// FP32: U is orthonormal to about 1e-7.
  void read(RowRange rows, void* a, double* b) override;

 private:
  ProblemShape shape_;
  SourceInfo info_;
  std::uint64_t seed_;
  std::vector<double> tail_;                  // (m - n, n) row-major, orthonormal columns
  double tail_leverage_ = 0;                  // largest of its rows
  std::vector<std::int64_t> place_;           // (m): k >= 0: row k of the head; else -1 - (row of the tail)
  double head_weight_ = 1, tail_weight_ = 0;  // sqrt(t), sqrt(1 - t)
};

}  // namespace tallsketch
