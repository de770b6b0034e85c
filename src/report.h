// Report: everything a run found out, as plain data, and its JSON form (schema_version 1 of the contract).
// Filled by solver.cpp on every rank (rank 0's counts), written by the solve driver on every exit but 1 and 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/rounded_half.h"
#include "kernels/sketch_spec.h"
#include "src/phase_timer.h"
#include "src/plan.h"
#include "src/rank_place.h"
#include "src/row_source.h"
#include "src/version.h"

namespace tallsketch {

class Communicator;

struct SolverOutcome {
  std::string method = "sketch-solve";
  std::string preconditioner;  // "sketch" or "gram", of refine; empty: none
  std::string reduced_solver;  // "qr", "cholesky", "svd", as it was in the end; empty: not reached
  double ridge = 0;
  bool converged = false;
  std::string reason = "not reached";
  int iterations = 0;
  int passes = 0;
  std::optional<double> backward_error, normal_residual;  // certified; by refine alone
  // Of sketch-solve, which reads A once and cannot measure: estimated from the sketch (docs/numerics.md).
  std::optional<double> backward_error_estimate;
  std::optional<double> residual_check, residual_excess_check;  // by check_rows sketch rows that x has not seen
  std::int64_t check_rows = 0;
  std::optional<double>
      standard_error_spread;  // relative uncertainty of the standard errors, where they were asked for
  std::optional<double> residual_norm, relative_residual, residual_excess_estimate;
  std::optional<double> x_error_estimate;  // ||x - x*|| / ||x||, x* the least-squares solution
  std::optional<double> condition_estimate;
  std::optional<std::int64_t> rank;
  std::optional<double> x_norm;
};

struct Report {
  std::string status = "internal_error";
  int exit_code = 1;
  std::string message;  // of the error, empty when solved
  std::string command_line;
  std::optional<ProblemShape> shape;
  SourceInfo source;
  std::optional<SketchSpec> sketch;
  std::string sketch_file;               // that the sketch was read from, or written to; empty: none
  std::vector<RowRange> sketch_rows;     // that it covers, of the whole matrix
  std::string scaling = "none";          // auto: columns were scaled by powers of two
  std::string reduce = "fp32";           // of a sketch below FP64, which is reduced as it is
  std::optional<RoundingLosses> losses;  // of all ranks
  std::optional<Plan> plan;
  std::string backend, reduce_library;
  std::vector<Library> libraries;  // that the backend computes with
  SolverOutcome solver;
  std::int64_t bytes_read = 0;  // all ranks
  std::vector<std::string> warnings;
  // Collected from all ranks by gather_ranks, on rank 0.
  std::vector<RankPlace> ranks;  // empty where the ranks could not be asked
  int size = 0, nodes = 0;
  std::vector<double> phase_seconds;  // (ranks, kPhases)
};

/// Collective: every rank's place, in rank order, on rank 0.
std::vector<RankPlace> gather_places(const Communicator& comm, const RankPlace& mine);

/// Collective: brings every rank's place and phase times into rank 0's report.
void gather_ranks(Report& report, const Communicator& comm, const RankPlace& mine, const PhaseTimer& timer);

/// Strict JSON, indented. A value that is not known is null, and `warnings` says why.
std::string to_json(const Report& report);

/// What belongs to x in its file: tool, command line, problem, sketch.
std::string provenance_json(const Report& report);

}  // namespace tallsketch
