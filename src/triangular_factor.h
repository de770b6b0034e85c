// TriangularFactor: the reduced problem after its QR. Made by reduced_solver and cuda_reduced_solver, solved by solve_reduced.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tallsketch {

/// How R was found: as the R of a QR, or as the Cholesky factor of the Gram matrix.
enum class FactorMethod { kQr, kCholesky };

/// The reduced problem in triangular form: R of the QR of the column-scaled sketch S [A | b]. A Cholesky factor keeps of
/// R22 the norms of its columns, on the diagonal.
struct TriangularFactor {
  std::int64_t n = 0, r = 0;
  double unit_roundoff = 0;  // of what was factored: 2^-24 for an FP32 sketch, 2^-53 for FP64
  FactorMethod method = FactorMethod::kQr;
  std::vector<double> upper;  // (n + r, n + r) column-major; below the diagonal undefined
  std::vector<int> exponent;  // column j of S [A | b] was multiplied by 2^exponent[j] before the QR
};

/// Column exponents for the QR, from the largest magnitude of every column of the sketch. exponent[j] brings column j's
/// maximum into [0.5, 1); 0 for a zero column.
std::vector<int> column_exponents(const std::vector<double>& column_max);

/// Unit roundoff of float or double.
template <class T>
inline constexpr double kUnitRoundoffOf = std::numeric_limits<T>::epsilon() / 2;

}  // namespace tallsketch
