// MadeUpProblem: a least-squares problem for benchmarks, a function of seed and global row, whose condition and residual are
// known. Made where rows are kept: Backend::make_up; the parts that need no device are here.
#pragma once

#include <cstdint>
#include <vector>

#include "src/problem_shape.h"
#include "src/row_range.h"

namespace tallsketch {

/// A = G V diag(sigma) V^T / sqrt(m): G standard normal, V orthonormal (n, n), sigma from 1 to 1 / cond in equal ratios.
/// b = A 1 + e, e normal, with ||e|| about residual ||A 1||.
struct MadeUpProblem {
  double cond = 1e4;
  double residual = 1e-3;
  std::uint64_t seed = 0;
};

/// Q of a QR of normal numbers, (n, n) column-major.
std::vector<double> orthonormal_matrix(std::int64_t n, std::uint64_t seed);

/// V diag(sigma) V^T / sqrt(m), (n, n), symmetric. V is the Q of a QR of normal numbers.
/// Cost  about 6 n^3 operations
std::vector<double> mixing_matrix(const MadeUpProblem& problem, const ProblemShape& shape);

/// Standard deviation of the elements of e.
double noise_of(const MadeUpProblem& problem, const ProblemShape& shape, const std::vector<double>& mix);

/// Rows of A and b in host memory.
/// a  out (rows, n) row-major of the stored type; b  out (rows, r)
void make_rows(const MadeUpProblem& problem, const ProblemShape& shape, const std::vector<double>& mix, RowRange rows,
               void* a, double* b);

}  // namespace tallsketch
