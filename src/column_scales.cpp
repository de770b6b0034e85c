#include "src/column_scales.h"

#include <cmath>

namespace tallsketch {

void ColumnScales::take_out(TriangularFactor& factor) const {
  for (std::size_t j = 0; j < factor.exponent.size(); ++j) {
    factor.exponent[j] -= j < of_a_.size() ? of_a_[j] : of_b_[j - of_a_.size()];
  }
}

void ColumnScales::scale(int sign, std::vector<double>& x) const {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t j = i / of_b_.size(), k = i % of_b_.size();
    x[i] = std::ldexp(x[i], sign * (of_b_[k] - of_a_[j]));
  }
}

std::vector<double> ColumnScales::scaled_norms(std::vector<double> norms) const {
  for (std::size_t k = 0; k < norms.size(); ++k) norms[k] = std::ldexp(norms[k], of_b_[k]);
  return norms;
}

void ColumnScales::undo(RefineResult& result) const {
  scale(-1, result.x);
  for (std::vector<double>* figures :
       {&result.residual_norm, &result.normal_residual, &result.preconditioned_gradient}) {
    for (std::size_t k = 0; k < figures->size(); ++k) (*figures)[k] = std::ldexp((*figures)[k], -of_b_[k]);
  }
}

}  // namespace tallsketch
