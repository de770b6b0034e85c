// Solves of the studies: many of one system, whose rows the backend keeps, each judged by a pass in FP64. Collective.
// Called by drivers/study_lstsq and study_range.
#pragma once

#include <optional>
#include <vector>

#include "src/error.h"
#include "src/solver.h"

namespace tallsketch {

/// One solve, as its x shows: figures on all ranks, x on rank 0.
struct JudgedSolve {
  std::optional<ErrorKind> failure;  // kNonFinite, kRankDeficient; nothing: solved
  bool converged = true;             // of a refinement
  bool escalated = false;            // x was made from a finer sketch than the one asked for: that did not resolve A
  std::vector<double> x;             // (n, 1)
  double residual = 0;               // ||A x - b|| / ||b||, by a pass in FP64
  double objective = 0;              // sqrt(||A x - b||^2 + lambda ||x||^2)
  int passes = 0;                    // over A
  RoundingLosses losses;             // of a 16-bit sketch, also where the solve failed
  // Of the slowest rank, without the pass that judges.
  double seconds = 0, sketch_seconds = 0, factor_seconds = 0, refine_seconds = 0;
};

class StudySolves {
 public:
  /// Reads the source once: the backend keeps its rows.
  /// source  r = 1, A FP32; outlives this, as all else does
  /// Errors  kMemory where they do not stay in memory
  StudySolves(RowSource& source, std::uint64_t chunk_rows, Backend& backend, const SolveContext& context);

  /// Errors  all but kNonFinite and kRankDeficient, which are what a study is after
  JudgedSolve solve(const SketchOptions& sketch, const MethodOptions& method);
  /// The least-squares solution (with the method's ridge), by refinement.
  /// Errors  kNotConverged without a certificate of 1e-15 for its backward error
  JudgedSolve exact(double ridge);
  /// ||b||
  double b_norm() const { return rows_.b_norms.front(); }

 private:
  void judge(double ridge, JudgedSolve& solved);

  RowSource& source_;
  std::uint64_t chunk_rows_;
  Backend& backend_;
  const SolveContext& context_;
  KeptRows rows_;
};

}  // namespace tallsketch
