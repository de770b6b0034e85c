// ColumnScales: a problem whose columns were multiplied by powers of two, A' = A 2^e, b' = b 2^f, and back. Exact.
// Used by solver.cpp, where the data leave the range of a sketch, and so that of the products of a refinement pass.
#pragma once

#include <vector>

#include "src/problem_shape.h"
#include "src/refine.h"
#include "src/triangular_factor.h"

namespace tallsketch {

class ColumnScales {
 public:
  /// exponents  (n + r): e, then f
  ColumnScales(const std::vector<int>& exponents, const ProblemShape& shape)
      : of_a_(exponents.begin(), exponents.begin() + shape.n), of_b_(exponents.begin() + shape.n, exponents.end()) {}

  const std::vector<int>& of_a() const { return of_a_; }
  /// The factor's powers of two, which are those of A and b as given, become those of A' and b'.
  void take_out(TriangularFactor& factor) const;
  /// x of A and b becomes that of A' and b': x' = 2^-e x 2^f; (n, r) row-major, empty stays empty.
  void scale(std::vector<double>& x) const { scale(1, x); }
  /// ||b'||, from ||b||, (r).
  std::vector<double> scaled_norms(std::vector<double> norms) const;
  /// What was found for A' and b' becomes that for A and b. The normal residual is of scaled columns as it is.
  void undo(RefineResult& result) const;

 private:
  void scale(int sign, std::vector<double>& x) const;

  std::vector<int> of_a_, of_b_;
};

}  // namespace tallsketch
