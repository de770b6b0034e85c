// The range of a sketch's number format, and what a finished sketch says of it.
// Used by both backends, by non_finite and by the solver, which scales the columns and sketches again where it is left.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/sketch_spec.h"

namespace tallsketch {

/// Magnitudes from least to most.
struct Magnitudes {
  double least = 0;
  double most = 0;
  bool hold(double magnitude) const { return magnitude >= least && magnitude <= most; }  // false for NaN
};

/// Largest magnitudes of a column that lose nothing. FP32: sums below 2^-100 may have lost digits to underflow (2^-126)
/// on the way. FP64: the squares that norms need stay in range too, for any number of rows. What lies below FP32 is
/// widened to it, and has column factors of its own.
constexpr Magnitudes safe_magnitudes(SketchPrecision precision) {
  if (precision == SketchPrecision::kFp64) return {0x1p-400, 0x1p400};
  return {0x1p-100, std::numeric_limits<float>::max()};
}

/// A sketch that is not finite or not safe makes the solver look at the data again.
struct SketchRange {
  bool finite = true;
  bool safe = true;  // every column's largest magnitude is safe; that of a zero column is not
};

/// column_max  largest magnitude of every column of the sketch, NaN passed over
/// finite      whether all its elements are
inline SketchRange judge_range(const std::vector<double>& column_max, bool finite, SketchPrecision precision) {
  const Magnitudes safe = safe_magnitudes(precision);
  return {finite,
          std::all_of(column_max.begin(), column_max.end(), [&](double largest) { return safe.hold(largest); })};
}

}  // namespace tallsketch
