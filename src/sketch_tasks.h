// What a sketch does to the tasks of paper B: Gram matrix, subspace embedding, ridge regression, sketch-and-solve. Pure, FP64.
// Called by task_study; rank 0 only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tallsketch {

/// What the sketch of [A | Q | b] became, the factor of S included.
struct SketchedTasks {
  std::vector<double> values;  // (d, 2 n + 1) row-major
  std::int64_t d = 0, n = 0;
};

/// Errors of one sketch; nothing where a task is not done: its system has no solution.
/// Source: paper B, F.1
struct TaskErrors {
  double gram = 0;              // ||A^T A - (S A)^T S A||_F / ||A^T A||_F
  double ose = 0;               // ||(S Q)^T S Q - I||_2; at least 1 where d < n
  std::optional<double> ridge;  // ||A x - b|| / ||b||, x = argmin ||S A x - S b||^2 + lambda ||x||^2
  std::optional<double> solve;  // the same with lambda = 0; nothing where d < n, or S A lost rank
};

/// The same with no sketch in between: no error but the residuals of ridge regression and least squares.
/// triangle  (n + 1, n + 1) row-major, of a QR of [A | b], A with independent columns
TaskErrors exact_errors(const std::vector<double>& triangle, std::int64_t n, double lambda);

/// triangle  (n + 1, n + 1) row-major, of a QR of [A | b]: the tasks as they are without a sketch
/// lambda    above 0
/// Errors    kNonFinite for an overflowed sketch; kMemory for sizes beyond LAPACK's
/// Cost      about 8 d n^2 + 10 n^3 operations
TaskErrors task_errors(const SketchedTasks& sketch, const std::vector<double>& triangle, double lambda);

/// x = argmin ||M x - c||^2 + lambda ||x||^2 by Householder QR in FP64; nothing where M has dependent columns and lambda = 0.
/// m_and_c  (rows, n + 1) row-major: M, then c
std::optional<std::vector<double>> ridge_solution(const std::vector<double>& m_and_c, std::int64_t rows, std::int64_t n,
                                                  double lambda);

/// ||A x - b|| / ||b|| from the triangle of [A | b].
double relative_residual(const std::vector<double>& triangle, std::int64_t n, const std::vector<double>& x);

}  // namespace tallsketch
