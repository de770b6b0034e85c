// ScaledSource: the rows of another source with every column multiplied by a power of two, so that its values fit the
// number format of a sketch. Made by the solver after a sketch has left its range, by no one else.
#pragma once

#include <vector>

#include "src/row_source.h"

namespace tallsketch {

/// Exponents, (n + r), that bring the largest magnitude of every column of [A | b] near 1: into [0.5, 1) unless the
/// power of two itself would leave the stored type (then into [2^-52, 4)). 0 for columns of zeros, and for float16,
/// whose range no sketch leaves.
std::vector<int> scaling_exponents(const std::vector<double>& column_max, const ProblemShape& shape);

class ScaledSource final : public RowSource {
 public:
  /// exponents  (n + r), from scaling_exponents; the source outlives this
  ScaledSource(RowSource& source, const std::vector<int>& exponents);

  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  /// Exact, but for elements that become subnormal: those are below 2^-120 (float32, bfloat16) of the largest of their column.
  void read(RowRange rows, void* a, double* b) override;
  void check_unchanged() const override { source_.check_unchanged(); }
  std::optional<StoredPlace> place_of(std::int64_t row, bool of_b) const override {
    return source_.place_of(row, of_b);
  }
  std::int64_t buffer_bytes() const override { return source_.buffer_bytes(); }
  std::string identity() const override { return source_.identity(); }

 private:
  RowSource& source_;
  std::vector<double> factor_a_, factor_b_;  // 2^exponent of every column
};

}  // namespace tallsketch
