// TriangularFactor: the reduced problem after its QR. Made by sketch_factor and
// cuda_reduced_solver, solved by solve_reduced.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "src/triangle.h"

namespace tallsketch {

/// How R was found: as the R of a QR, or as the Cholesky factor of the Gram matrix.
enum class FactorMethod { kQr, kCholesky };

/// The reduced problem in triangular form: R of the QR of the column-scaled sketch S [A | b]. A Cholesky factor keeps of
/// R22 the norms of its columns, on the diagonal.
struct TriangularFactor {
  std::int64_t n = 0, r = 0;
  double unit_roundoff = 0;  // of what was factored: 2^-24 for an FP32 sketch, 2^-53 for FP64
  FactorMethod method = FactorMethod::kQr;
  std::vector<int> exponent;            // (n + r): column j of S [A | b] was multiplied by 2^exponent[j] before the QR
  std::shared_ptr<const Triangle> r11;  // (n, n)
  std::vector<double> right;            // (n + r, r) column-major: R12 above R22, zeros below its diagonal
};

/// R as a whole, (n + r, n + r) column-major, zeros below the diagonal.
std::vector<double> upper_of(const TriangularFactor& factor);

/// Makes R11, R12 and R22 those of a triangle in host memory.
/// upper  in (n + r, n + r) column-major; below the diagonal anything
void set_upper(const std::vector<double>& upper, TriangularFactor& factor);

/// Column exponents for the QR, from the largest magnitude of every column of the sketch. exponent[j] brings column j's
/// maximum into [0.5, 1); 0 for a zero column.
std::vector<int> column_exponents(const std::vector<double>& column_max);

/// Unit roundoff of float or double.
template <class T>
inline constexpr double kUnitRoundoffOf = std::numeric_limits<T>::epsilon() / 2;

}  // namespace tallsketch
