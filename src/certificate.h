// BackwardErrorCertificate: how far x is from solving exactly a problem near ours. Called by refine, on rank 0.
// The problem is the column-scaled one, min ||A D y - b||; R is the triangle of its sketch, so that A D is about Q R.
#pragma once

#include <vector>

#include "src/preconditioner.h"

namespace tallsketch {

/// What a pass over A tells of one approximate solution y, in the scaled columns.
struct NormalResidual {
  std::vector<double> gradient;  // (n): (A D)^T (b - A D y)
  double residual_norm = 0;      // ||b - A D y||
  double solution_norm = 0;      // ||y||
  double rhs_norm = 0;           // ||b||, or its sketch's: it only weighs changes of b against changes of A
};

/// The sketched Karlson-Walden estimate of the normwise backward error, relative to ||A D||_F: the least eta such that y
/// solves min ||(A D + E) y - (b + f)|| exactly for some ||E||_F <= eta ||A D||_F and ||f|| <= eta ||b||, about.
///
///   scale = sqrt(||y||^2 + ||b||^2 / ||R||_F^2),  omega = ||r|| / scale,
///   eta   = || (R^T R + omega^2 I)^(-1/2) g || / (scale ||R||_F),  g = (A D)^T r
///
/// The norm comes from the preconditioner: of a triangle it is that of R_omega^-T g, where R_omega is the triangle of
/// [R; omega I]: one QR for each omega, no SVD.
/// Limits  with the exact R of A D the estimate lies within a factor sqrt(2) of the optimal backward error (Hallman 2020);
///         a sketch that keeps lengths within 1 +- e adds a factor within (1 + e) / (1 - e). An R in FP32 holds no
///         singular value below about 1e-6 of the largest: no certificate there.
/// Source  Karlson, Walden, BIT 37 (1997); sketched: Epperly, Meier, Nakatsukasa, arXiv 2406.03468
class BackwardErrorCertificate {
 public:
  /// preconditioner  kept by reference
  explicit BackwardErrorCertificate(const Preconditioner& preconditioner)
      : preconditioner_(preconditioner), frobenius_(preconditioner.frobenius_norm()) {}

  /// The estimate. 0 for g = 0.
  double estimate(const NormalResidual& of) const;

  /// An upper bound of the estimate (without its rounding of omega) that needs no QR, from s = R^-T g:
  ///   eta <= 1 / sqrt(1 / ||s||^2 + omega^2 / ||g||^2) / (scale ||R||_F)
  /// Jensen's inequality: eta^2 is ||s||^2 times a mean of t / (t + omega^2), concave in the eigenvalues t of R^T R, whose
  /// mean under the same weights is ||g||^2 / ||s||^2. Exact for omega = 0; within a pass of the estimate in practice
  /// (docs/decisions/0016).
  /// preconditioned_norm  ||N^T g||, s for short
  double bound(const NormalResidual& of, double preconditioned_norm) const;

 private:
  struct Weights {
    double scale, omega;
  };
  Weights weights(const NormalResidual& of) const;

  const Preconditioner& preconditioner_;
  double frobenius_;
};

/// Euclidean norm without harmful overflow or underflow.
double norm_of(const std::vector<double>& v);

}  // namespace tallsketch
