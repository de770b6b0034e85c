// StudySystem: the two least-squares systems of paper F (sections V-D and V-E) as a RowSource. Made by the studies.
#pragma once

#include <cstdint>
#include <vector>

#include "src/choices.h"
#include "src/row_source.h"

namespace tallsketch {

struct StudySystemOptions {
  SystemKind kind = SystemKind::kLowCoherence;
  std::int64_t m = 0, n = 0;
  std::uint64_t seed = 123;
  /// Times sigma, or the tail. sqrt(n / 256) gives any m = 256 n the elements and bucket sums of paper F's range study.
  double entry_scale = 1;
};

/// Errors  kUsage unless n >= 1, m >= 2 n and m < 2^31
void check_system_sizes(std::int64_t m, std::int64_t n);

/// low-coherence  A = G diag(sigma) V^T / sqrt(m), sigma linear from 100 to 1; G normal, so that the singular values are
///                sigma to a factor within 1 +- sqrt(n / m); V orthonormal. b = A 1 + N(0, 0.1^2)
/// coherent       A = P [I; T], T normal of standard deviation 1e-3 / sqrt(m - n); b = A 1 + P [N(0, 0.5^2); 0]. P is a
///                random permutation
/// A is FP32, b in FP64 of A as it is stored, rounded to FP32. A function of (seed, global row).
/// Source: paper F, V-D and V-E. Not in its text, but in its figures: the tail's 1 / sqrt(m - n) (the contributions' size
/// 1.96e-6), and that V-D's system has the singular values and the noise of V-E's (the least residual 0.0809 and the
/// coefficient error)
class StudySystem final : public RowSource {
 public:
  /// Errors  those of check_system_sizes
  explicit StudySystem(const StudySystemOptions& options);
  /// At most, while it is made: the shuffle of a coherent system and where its rows went.
  static double bytes(std::int64_t m) { return 12.0 * static_cast<double>(m); }

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override;

 private:
  void low_coherence_rows(RowRange rows, float* a) const;
  void coherent_row(std::int64_t row, float* a) const;

  StudySystemOptions options_;
  ProblemShape shape_;
  SourceInfo info_;
  std::vector<float> mix_;           // low coherence: diag(sigma) V^T / sqrt(m), (n, n) row-major
  std::vector<std::int32_t> place_;  // coherent: (m), the row of I that is here, or -1
};

/// Rows of another source, all held in memory, times 2^exponent: exact but for elements that leave FP32. For sweeps over
/// powers of two; its b is FP64.
class PowerScaledRows final : public RowSource {
 public:
  /// Reads the source, whose A is FP32, once. Cost: m (n 4 + r 8) bytes on every rank
  explicit PowerScaledRows(RowSource& source);
  /// Of m rows of n columns, r = 1.
  static double bytes(std::int64_t m, std::int64_t n) {
    return static_cast<double>(m) * (4.0 * static_cast<double>(n) + 8);
  }
  /// Of what read gives from now on; 0 before.
  void set_power(int exponent) { exponent_ = exponent; }

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override;

 private:
  ProblemShape shape_;
  SourceInfo info_;
  std::vector<float> a_;
  std::vector<double> b_;
  int exponent_ = 0;
};

}  // namespace tallsketch
