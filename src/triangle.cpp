#include "src/triangle.h"

#include <algorithm>
#include <cmath>

#include "src/certificate.h"

namespace tallsketch {

namespace {

double normalise(std::vector<double>& v) {
  double sum = 0;
  for (const double value : v) sum += value * value;
  const double norm = std::sqrt(sum);
  for (double& value : v) value /= norm;
  return norm;
}

}  // namespace

std::vector<double> condition_start(std::int64_t n) {
  std::vector<double> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 1.0 + 0.5 * std::cos(static_cast<double>(i * i));
  normalise(v);
  return v;
}

bool condition_has_settled(int step, double largest_before, double largest, double smallest_before, double smallest) {
  constexpr double kSettled = 0.05;  // change of a step
  return step > 1 && largest - largest_before <= kSettled * largest &&
         smallest_before - smallest <= kSettled * smallest;
}

double Triangle::condition_estimate() const {
  Vector v = condition_start(size()), w = v;
  double largest = 0, smallest = 0;
  for (int step = 0; step < kConditionSteps; ++step) {
    const double before[2] = {largest, smallest};
    multiply(v);
    multiply_transposed(v);
    largest = std::sqrt(normalise(v));
    solve_transposed(w);
    solve(w);
    smallest = 1 / std::sqrt(normalise(w));
    if (condition_has_settled(step, before[0], largest, before[1], smallest)) break;
  }
  return largest / smallest;
}

bool invertible(const Triangle& triangle) {
  const std::vector<double> diagonal = triangle.diagonal(), norms = triangle.column_norms();
  return std::none_of(diagonal.begin(), diagonal.end(), [](double value) { return value == 0; }) &&
         std::all_of(norms.begin(), norms.end(), [](double value) { return std::isfinite(value); });
}

double frobenius_norm(const Triangle& triangle) { return norm_of(triangle.column_norms()); }

}  // namespace tallsketch
