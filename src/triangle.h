// Triangle: R of a column-scaled sketch, or the Cholesky factor of a Gram matrix, in FP64, with what preconditioning and
// certificates need of it. On the host: UpperTriangle; on a GPU: DeviceTriangle (src/cuda_triangle.h). Used on rank 0.
#pragma once

#include <cstdint>
#include <vector>

namespace tallsketch {

class UpperTriangle;

/// An (n, n) upper triangle.
class Triangle {
 public:
  using Vector = std::vector<double>;

  virtual ~Triangle() = default;
  virtual std::int64_t size() const = 0;
  /// (n).
  virtual Vector diagonal() const = 0;
  virtual Vector column_norms() const = 0;
  /// v := R^-1 v and v := R^-T v, in place; v (n). The diagonal has no zeros.
  virtual void solve(Vector& v) const = 0;
  virtual void solve_transposed(Vector& v) const = 0;
  /// v := R v and v := R^T v, in place; v (n)
  virtual void multiply(Vector& v) const = 0;
  virtual void multiply_transposed(Vector& v) const = 0;
  /// Largest over smallest singular value, by power and inverse iteration on R^T R until both have settled. Both come out
  /// from inside the spectrum, within some tens of per cent, which is what a condition estimate is for.
  virtual double condition_estimate() const;
  /// The same triangle in host memory, as long as this one lives.
  virtual const UpperTriangle& on_host() const = 0;
};

/// Whether all columns are finite and no element of the diagonal is zero; solve and solve_transposed need that.
bool invertible(const Triangle& triangle);
double frobenius_norm(const Triangle& triangle);

/// Where the iterations of condition_estimate begin, and when they end.
inline constexpr int kConditionSteps = 24;
std::vector<double> condition_start(std::int64_t n);
bool condition_has_settled(int step, double largest_before, double largest, double smallest_before, double smallest);

}  // namespace tallsketch
