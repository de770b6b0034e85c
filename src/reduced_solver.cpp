#include "src/reduced_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/philox.h"
#include "src/upper_triangle.h"

namespace tallsketch {

namespace {

/// ||D N||_F / sqrt(n), with D the column scales: a vector spread evenly over the range of S A moves x by so much for
/// each unit of length. Estimated from ||N^T D v|| for random signs v (Hutchinson), some ten per cent off.
double coefficient_spread(const Preconditioner& preconditioner, const TriangularFactor& factor) {
  const std::int64_t n = factor.n;
  const int probes = n < 256 ? 8 : 2;  // the estimate of one is the better the more columns there are
  const int top = *std::max_element(factor.exponent.begin(), factor.exponent.begin() + n);  // squares stay in range
  double squares = 0;
  std::vector<double> v(static_cast<std::size_t>(n));
  for (int probe = 0; probe < probes; ++probe) {
    for (std::int64_t j = 0; j < n; ++j) {
      const RandomWords words = random_words(0, j, DrawPurpose::kVectors, static_cast<std::uint32_t>(probe));
      const double sign = (words.word[0] & 1U) != 0 ? -1.0 : 1.0;
      v[static_cast<std::size_t>(j)] = std::ldexp(sign, factor.exponent[static_cast<std::size_t>(j)] - top);
    }
    for (const double value : preconditioner.apply_transposed(v)) squares += value * value;
  }
  return std::ldexp(std::sqrt(squares / probes / static_cast<double>(n)), top);
}

std::vector<std::int64_t> dependent_on_earlier(const Triangle& r11, double cutoff) {
  const std::vector<double> diagonal = r11.diagonal(), norms = r11.column_norms();
  std::vector<std::int64_t> dependent;
  for (std::size_t j = 0; j < norms.size(); ++j) {
    if (!(std::fabs(diagonal[j]) > cutoff * norms[j])) dependent.push_back(static_cast<std::int64_t>(j));
  }
  return dependent;
}

/// R12's column k, (n).
std::vector<double> right_side(const TriangularFactor& factor, std::int64_t k) {
  const auto begin = factor.right.begin() + k * (factor.n + factor.r);
  return {begin, begin + factor.n};
}

/// x(:, k) = 2^exponents y, the powers of two of b undone.
void unscale(const std::vector<double>& y, std::int64_t k, const TriangularFactor& factor, std::vector<double>& x) {
  const int of_b = factor.exponent[static_cast<std::size_t>(factor.n + k)];
  for (std::int64_t i = 0; i < factor.n; ++i) {
    x[static_cast<std::size_t>(i * factor.r + k)] =
        std::ldexp(y[static_cast<std::size_t>(i)], factor.exponent[static_cast<std::size_t>(i)] - of_b);
  }
}

ReducedSolution solve_by_spectrum(const TriangularFactor& factor, double cutoff) {
  ReducedSolution solution;
  solution.by = ReducedMethod::kSpectral;
  const auto spectral = std::make_shared<SpectralPreconditioner>(factor.r11->on_host(), cutoff, factor.exponent);
  solution.rank = spectral->rank();
  const std::vector<double>& sigma = spectral->singular_values();
  const bool full = solution.rank == factor.n;
  solution.x.resize(static_cast<std::size_t>(factor.n * factor.r));
  solution.condition = full ? sigma.front() / sigma.back() : std::numeric_limits<double>::infinity();
  if (!full) {
    solution.dependent = dependent_on_earlier(*factor.r11, cutoff);
    if (static_cast<std::int64_t>(solution.dependent.size()) != factor.n - solution.rank) {
      solution.dependent = spectral->dependent_columns();
    }
  }
  for (std::int64_t k = 0; k < factor.r; ++k) {
    unscale(spectral->apply(spectral->project(right_side(factor, k))), k, factor, solution.x);
  }
  solution.spread = coefficient_spread(*spectral, factor);
  solution.preconditioner = spectral;
  return solution;
}

}  // namespace

ReducedSolution solve_reduced(const TriangularFactor& factor, std::int64_t rows, ReducedMethod method, double stored) {
  const std::int64_t n = factor.n, r = factor.r;
  const double cutoff = 2 * std::max(std::sqrt(static_cast<double>(rows)) * factor.unit_roundoff, stored);
  ReducedSolution solution;
  solution.condition = std::numeric_limits<double>::infinity();
  if (method == ReducedMethod::kSpectral) {
    return solve_by_spectrum(factor, cutoff);
  }
  solution.dependent = dependent_on_earlier(*factor.r11, cutoff);
  if (solution.dependent.empty()) {
    solution.condition = factor.r11->condition_estimate();
    if (!(solution.condition < 1 / cutoff)) {
      if (method == ReducedMethod::kProbe) {
        solution.condition = std::numeric_limits<double>::infinity();
        return solution;
      }
      solution.dependent = SpectralPreconditioner(factor.r11->on_host(), cutoff, factor.exponent).dependent_columns();
    }
  }
  solution.rank = n - static_cast<std::int64_t>(solution.dependent.size());
  if (solution.rank < n) {
    solution.condition = std::numeric_limits<double>::infinity();
    return solution;
  }
  solution.x.resize(static_cast<std::size_t>(n * r));
  const auto triangle = std::make_shared<TrianglePreconditioner>(factor.r11);
  for (std::int64_t k = 0; k < r; ++k) {
    const std::vector<double> c = right_side(factor, k);
    std::vector<double> y = triangle->apply(c), rest = y;
    // One correction: an explicit inverse (GPU) alone leaves a residual of its condition.
    factor.r11->multiply(rest);
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = c[i] - rest[i];
    const std::vector<double> correction = triangle->apply(rest);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += correction[i];
    unscale(y, k, factor, solution.x);
  }
  solution.spread = coefficient_spread(*triangle, factor);
  solution.preconditioner = triangle;
  return solution;
}

}  // namespace tallsketch
