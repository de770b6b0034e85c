// DenseSource: a dense problem in memory as a RowSource, stored as float64 or float32, that counts what is read of it.
// Called by the tests of refinement under mpirun.
#pragma once

#include <algorithm>

#include "src/row_source.h"
#include "tests/support/dense_problem.h"

namespace tallsketch {

class DenseSource final : public RowSource {
 public:
  explicit DenseSource(DenseProblem problem, ElementType type = ElementType::kFloat64)
      : problem_(std::move(problem)), shape_{problem_.m, problem_.n, problem_.r, type} {
    info_ = {{"dense"}, "/A", "/b", "made", "dense", "computed", {}};
    if (type != ElementType::kFloat32) return;
    for (double& value : problem_.a) value = static_cast<double>(static_cast<float>(value));
  }
  /// As it is stored.
  const DenseProblem& problem() const { return problem_; }
  /// Rows read so far on this rank.
  std::int64_t rows_read() const { return rows_read_; }

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override {
    rows_read_ += rows.size();
    const auto from = problem_.a.begin() + rows.begin * shape_.n, to = problem_.a.begin() + rows.end * shape_.n;
    if (shape_.a_type == ElementType::kFloat64) {
      std::copy(from, to, static_cast<double*>(a));
    } else {
      std::transform(from, to, static_cast<float*>(a), [](double value) { return static_cast<float>(value); });
    }
    std::copy(problem_.b.begin() + rows.begin * shape_.r, problem_.b.begin() + rows.end * shape_.r, b);
  }

 private:
  DenseProblem problem_;
  ProblemShape shape_;
  SourceInfo info_;
  std::int64_t rows_read_ = 0;
};

}  // namespace tallsketch
