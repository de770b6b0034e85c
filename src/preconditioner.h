// Preconditioner: what a sketch knows of A, in the form that refinement and its certificate ask for. Made by
// solve_reduced. A D is about U R with U orthonormal, R from the sketch (or the Gram matrix), D = diag(2^exponent).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/upper_triangle.h"

namespace tallsketch {

class Preconditioner {
 public:
  using Vector = std::vector<double>;

  virtual ~Preconditioner() = default;
  /// n: columns of A.
  virtual std::int64_t size() const = 0;
  /// k <= n: directions of x that are solved for; 0 for A = 0.
  virtual std::int64_t rank() const = 0;
  /// y = N z, (k) to (n), where A D N is about orthonormal.
  virtual Vector apply(const Vector& z) const = 0;
  /// N^T g, (n) to (k).
  virtual Vector apply_transposed(const Vector& g) const = 0;
  /// Euclidean norms of the rows of N, (n): with the residual's variance, the standard errors of y.
  virtual Vector row_norms() const = 0;

  /// Of R, so about those of A D.
  virtual double frobenius_norm() const = 0;
  virtual double column_norm(std::int64_t j) const = 0;
  /// || (R^T R + omega^2 I)^(-1/2) g ||, over the directions that are solved for.
  virtual double damped_norm(const Vector& g, double omega) const = 0;
};

/// N = R^-1, k = n. R is a triangle without zeros on the diagonal.
class TrianglePreconditioner final : public Preconditioner {
 public:
  /// Errors  kInternal for a triangle that is not invertible
  explicit TrianglePreconditioner(std::shared_ptr<const Triangle> triangle);
  explicit TrianglePreconditioner(UpperTriangle upper)
      : TrianglePreconditioner(std::make_shared<UpperTriangle>(std::move(upper))) {}

  const Triangle& triangle() const { return *triangle_; }
  std::int64_t size() const override { return triangle_->size(); }
  std::int64_t rank() const override { return triangle_->size(); }
  /// Cost  n^2 operations each: a triangular solve
  Vector apply(const Vector& z) const override;
  Vector apply_transposed(const Vector& g) const override;
  /// Cost  n^3 / 3 operations: R is inverted
  Vector row_norms() const override;
  double frobenius_norm() const override { return frobenius_; }
  double column_norm(std::int64_t j) const override { return column_norms_[static_cast<std::size_t>(j)]; }
  /// omega is rounded down to half an octave, so that few triangles are needed: the norm grows by sqrt(2) at most.
  /// Cost  n^2 operations; 2 n^3 / 3 when omega has moved since the last call
  double damped_norm(const Vector& g, double omega) const override;

 private:
  std::shared_ptr<const Triangle> triangle_;
  Vector column_norms_;
  double frobenius_;
  mutable double shift_ = 0;  // of shifted_
  mutable std::optional<UpperTriangle> shifted_;
};

/// From the singular value decomposition R = U diag(sigma) V^T: directions with singular values at or below a cut-off
/// count as null space, and x has no part in it: the minimum-norm solution. N = D^-1 P D V_k diag(sigma_k)^-1, where P
/// projects onto the complement of D V_0, so that the norm is that of x and not of the scaled y.
class SpectralPreconditioner final : public Preconditioner {
 public:
  /// cutoff    relative to the largest singular value, below 1; of R = 0 no direction is kept
  /// exponent  (n): D, of any range: a null space that small columns alone take part in is kept apart from rounding
  /// Errors    kInternal where LAPACK's decomposition does not converge; kMemory
  /// Cost      about 22 n^3 operations (LAPACK dgesdd)
  SpectralPreconditioner(const UpperTriangle& upper, double cutoff, const std::vector<int>& exponent);

  /// (n), decreasing.
  const Vector& singular_values() const { return sigma_; }
  /// n - k columns without which the others are independent, increasing: those that the null vectors have most of, by a
  /// QR of V_0^T with column pivoting. The last columns of a pivoted QR of R need not do (Kahan's matrix).
  /// Source  Golub, Van Loan, Matrix Computations, subset selection by SVD
  std::vector<std::int64_t> dependent_columns() const;
  /// U_k^T c, (n) to (k): the coordinates z of the least-squares solution R y = c.
  Vector project(const Vector& c) const;

  std::int64_t size() const override { return n_; }
  std::int64_t rank() const override { return k_; }
  Vector apply(const Vector& z) const override;
  Vector apply_transposed(const Vector& g) const override;
  Vector row_norms() const override;
  double frobenius_norm() const override { return frobenius_; }
  double column_norm(std::int64_t j) const override { return column_norms_[static_cast<std::size_t>(j)]; }
  double damped_norm(const Vector& g, double omega) const override;

 private:
  void project_out_null_space(double cutoff, const std::vector<int>& exponent);
  double right_vector(std::int64_t i, std::int64_t j) const { return vt_[static_cast<std::size_t>(i * n_ + j)]; }  // V

  std::int64_t n_, k_ = 0;
  double frobenius_;
  Vector column_norms_, sigma_;
  Vector u_, vt_;  // (n, n) column-major
  Vector basis_;   // N, (n, k) column-major
};

}  // namespace tallsketch
