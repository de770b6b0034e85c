#include "src/reduced_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <lapacke.h>

#include "kernels/philox.h"
#include "src/error.h"
#include "src/upper_triangle.h"

namespace tallsketch {

namespace {

double normalise(std::vector<double>& v) {
  double sum = 0;
  for (const double value : v) sum += value * value;
  const double norm = std::sqrt(sum);
  for (double& value : v) value /= norm;
  return norm;
}

/// Largest and smallest singular value of R by power and inverse iteration on R^T R. Both come out within a few per
/// cent from inside the spectrum, which is what a condition estimate is for.
double condition_estimate(const UpperTriangle& upper) {
  constexpr int kSteps = 24;
  std::vector<double> v(static_cast<std::size_t>(upper.size())), w(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = w[i] = 1.0 + 0.5 * std::cos(static_cast<double>(i * i));
  normalise(v);
  normalise(w);
  double largest = 0, smallest = 0;
  for (int step = 0; step < kSteps; ++step) {
    upper.multiply(v);
    upper.multiply_transposed(v);
    largest = std::sqrt(normalise(v));
    upper.solve_transposed(w);
    upper.solve(w);
    smallest = 1 / std::sqrt(normalise(w));
  }
  return largest / smallest;
}

/// ||D R^-1||_F / sqrt(n), with D the column scales: a vector spread evenly over the range of S A moves x by so much for
/// each unit of length. Estimated from ||R^-T D v|| for random signs v (Hutchinson), a few per cent off.
double coefficient_spread(const UpperTriangle& upper, const TriangularFactor& factor) {
  constexpr int kProbes = 16;
  const std::int64_t n = factor.n;
  const int top = *std::max_element(factor.exponent.begin(), factor.exponent.begin() + n);  // squares stay in range
  double squares = 0;
  std::vector<double> v(static_cast<std::size_t>(n));
  for (int probe = 0; probe < kProbes; ++probe) {
    for (std::int64_t j = 0; j < n; ++j) {
      const RandomWords words = random_words(0, j, DrawPurpose::kVectors, static_cast<std::uint32_t>(probe));
      const double sign = (words.word[0] & 1U) != 0 ? -1.0 : 1.0;
      v[static_cast<std::size_t>(j)] = std::ldexp(sign, factor.exponent[static_cast<std::size_t>(j)] - top);
    }
    upper.solve_transposed(v);
    for (const double value : v) squares += value * value;
  }
  return std::ldexp(std::sqrt(squares / kProbes / static_cast<double>(n)), top);
}

lapack_int geqrf(lapack_int rows, lapack_int cols, float* a, float* tau) {
  return LAPACKE_sgeqrf(LAPACK_COL_MAJOR, rows, cols, a, rows, tau);
}
lapack_int geqrf(lapack_int rows, lapack_int cols, double* a, double* tau) {
  return LAPACKE_dgeqrf(LAPACK_COL_MAJOR, rows, cols, a, rows, tau);
}

}  // namespace

std::vector<int> column_exponents(const std::vector<double>& column_max) {
  std::vector<int> exponents;
  for (const double largest : column_max) {
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    exponents.push_back(-exponent);
  }
  return exponents;
}

template <class T>
std::vector<double> column_maxima(const std::vector<T>& matrix, std::int64_t d, std::int64_t cols) {
  std::vector<double> column_max(static_cast<std::size_t>(cols), 0.0);
  for (std::int64_t i = 0; i < d; ++i) {
    const T* row = matrix.data() + i * cols;
    for (std::int64_t j = 0; j < cols; ++j) {
      double& largest = column_max[static_cast<std::size_t>(j)];
      largest = std::max(largest, std::fabs(double{row[j]}));
    }
  }
  return column_max;
}

template <class T>
TriangularFactor qr_of_sketch(const std::vector<T>& sketch, std::int64_t d, std::int64_t n, std::int64_t r,
                              double scale) {
  const std::int64_t cols = n + r;
  TriangularFactor factor{n, r, kUnitRoundoffOf<T>, {}, column_exponents(column_maxima(sketch, d, cols))};

  // Column-major copy in blocks that stay in cache; the power of two is exact, 1 / sqrt(zeta) is one rounding.
  std::vector<T> q(static_cast<std::size_t>(d * cols));
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t i0 = 0; i0 < d; i0 += kBlock) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const int exponent = factor.exponent[static_cast<std::size_t>(j)];
      for (std::int64_t i = i0; i < std::min(d, i0 + kBlock); ++i) {
        const double value = scale * std::ldexp(double{sketch[static_cast<std::size_t>(i * cols + j)]}, exponent);
        q[static_cast<std::size_t>(j * d + i)] = static_cast<T>(value);
      }
    }
  }
  std::vector<T> tau(static_cast<std::size_t>(cols));
  const lapack_int info = geqrf(checked_int(d, "d"), checked_int(cols, "n + r"), q.data(), tau.data());
  require(info != LAPACK_WORK_MEMORY_ERROR, ErrorKind::kMemory, "LAPACK could not allocate its QR workspace");
  require(info == 0, ErrorKind::kInternal, fmt::format("LAPACKE_?geqrf returned {}", info));
  factor.upper.assign(static_cast<std::size_t>(cols * cols), 0.0);
  for (std::int64_t j = 0; j < cols; ++j) {
    const std::int64_t height = std::min(j + 1, d);
    std::copy_n(q.begin() + j * d, height, factor.upper.begin() + j * cols);
  }
  return factor;
}

template std::vector<double> column_maxima(const std::vector<float>&, std::int64_t, std::int64_t);
template std::vector<double> column_maxima(const std::vector<double>&, std::int64_t, std::int64_t);
template TriangularFactor qr_of_sketch(const std::vector<float>&, std::int64_t, std::int64_t, std::int64_t, double);
template TriangularFactor qr_of_sketch(const std::vector<double>&, std::int64_t, std::int64_t, std::int64_t, double);

ReducedSolution solve_reduced(const TriangularFactor& factor, std::int64_t d) {
  const std::int64_t n = factor.n, r = factor.r, ld = n + r;
  const UpperTriangle upper(n, factor.upper.data(), ld);
  ReducedSolution solution;
  const double cutoff = 2 * std::sqrt(static_cast<double>(d)) * factor.unit_roundoff;
  for (std::int64_t j = 0; j < n; ++j) {
    if (!(std::fabs(upper.at(j, j)) > cutoff * upper.column_norm(j))) solution.dependent.push_back(j);
  }
  solution.rank = n - static_cast<std::int64_t>(solution.dependent.size());
  for (std::int64_t k = 0; k < r; ++k) {
    double sum = 0;
    for (std::int64_t i = n; i < std::min(ld, d); ++i) {
      if (i > n + k) break;  // R22 is upper triangular
      const double value = factor.upper[static_cast<std::size_t>((n + k) * ld + i)];
      sum += value * value;
    }
    solution.sketched_residual.push_back(std::ldexp(std::sqrt(sum), -factor.exponent[static_cast<std::size_t>(n + k)]));
  }
  if (solution.rank < n) {
    solution.condition = std::numeric_limits<double>::infinity();
    return solution;
  }
  solution.condition = condition_estimate(upper);
  solution.spread = coefficient_spread(upper, factor);
  solution.x.resize(static_cast<std::size_t>(n * r));
  std::vector<double> column(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < r; ++k) {
    for (std::int64_t i = 0; i < n; ++i) {
      column[static_cast<std::size_t>(i)] = factor.upper[static_cast<std::size_t>((n + k) * ld + i)];
    }
    upper.solve(column);
    for (std::int64_t i = 0; i < n; ++i) {
      const int exponent =
          factor.exponent[static_cast<std::size_t>(i)] - factor.exponent[static_cast<std::size_t>(n + k)];
      solution.x[static_cast<std::size_t>(i * r + k)] = std::ldexp(column[static_cast<std::size_t>(i)], exponent);
    }
  }
  return solution;
}

}  // namespace tallsketch
