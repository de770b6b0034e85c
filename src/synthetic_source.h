// SyntheticSource: least-squares problems made row by row from counters, equal at any number of ranks and any chunking.
// Made by the generate driver, by open_source for `--kind`, and by tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/row_source.h"
#include "src/synthetic_problem.h"

namespace tallsketch {

/// Kinds, with g standard normal numbers of their own:
///   gaussian    A_ij = g
///   coherent    a permutation of the rows of [I_n; 1e-3 G]: a few rows carry everything
///   coordinate  [I_n; 0], rows in order
///   lowrank     U V / sqrt(rank) + 1e-5 G with Gaussian U (m, rank), V (rank, n)
///   illcond     G diag(1 .. 1/cond, logarithmic) H with H orthogonal (two Householder reflections)
///   uniform     multiples of 2^-11 in [-1, 1), exact in every type: made as fast as a GPU is fed (kernels/uniform_rows_host.h)
/// x_true = g / sqrt(n), of uniform rounded to float32. b = A x_true + noise g, with A as stored (rounded to its type), in
/// FP64, then rounded to stored_b_type. Of uniform, the noise is a sum of eight uniform numbers.
class SyntheticSource final : public RowSource {
 public:
  /// problem  has a kind
  /// threads  that read uses; 0: as many as OpenMP would. Another thread than the one that computes may call read: then
  ///          both have their own.
  /// Errors: kUsage for sizes that make no problem.
  explicit SyntheticSource(const SyntheticProblem& problem, int threads = 0);

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  void read(RowRange rows, void* a, double* b) override;
  std::string identity() const override;
  const std::vector<double>& x_true() const { return x_true_; }

 private:
  void fill_row(std::int64_t row, double* out, double* scratch) const;
  void gaussian_row(std::int64_t row, double* out) const;
  std::int64_t permuted_row(std::int64_t row) const;
  void read_uniform(RowRange rows, void* a, double* b) const;
  double stored_b(double product, double noise) const;

  SyntheticProblem problem_;
  int threads_;
  SyntheticKind kind_;
  ProblemShape shape_;
  SourceInfo info_;
  std::vector<double> x_true_;
  std::vector<double> basis_;            // lowrank: V (rank, n); illcond: two unit vectors (2, n)
  std::vector<double> singular_values_;  // illcond
  std::int64_t row_multiplier_ = 1;
};

}  // namespace tallsketch
