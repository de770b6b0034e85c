// Referee: judges any x for the rows that a backend keeps by the Karlson-Walden backward error, with a preconditioner of its
// own, so that solvers are compared by one measure. For benchmarks. Collective.
#pragma once

#include <vector>

#include "src/reduced_solver.h"
#include "src/solver.h"

namespace tallsketch {

class Referee {
 public:
  /// Makes the preconditioner from the kept rows: an FP64 sketch with d = 16 n, within a quarter of exact at any condition
  /// that FP64 resolves. The backend keeps the rows.
  Referee(const KeptRows& rows, RowSource& source, Backend& backend, const SolveContext& context);

  /// The backward error of x, largest over right-hand sides, relative to ||A D||_F; NaN on all ranks but the first.
  /// x  (n, r) row-major, on rank 0
  double judge(const std::vector<double>& x, Backend& backend) const;

 private:
  double largest_error(const std::vector<double>& x, const NormalSums& sums) const;

  const SolveContext& context_;
  KeptRows rows_;
  std::vector<int> exponent_;                             // (n)
  std::shared_ptr<const Preconditioner> preconditioner_;  // rank 0
};

}  // namespace tallsketch
