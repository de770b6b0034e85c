// The sketch of a whole problem: a pass over the rows of all ranks, the all-reduce, and, where the data leave the range of
// the sketch's number format, the same again with columns multiplied by powers of two. Called by solver.cpp.
#pragma once

#include <string>
#include <vector>

#include "src/backend.h"
#include "src/row_source.h"

namespace tallsketch {

struct Report;
struct SolveContext;

/// Seconds that a pass over the busiest rank's rows takes on a slow machine, for its deadline.
/// kept  whether the rows are in memory; otherwise they may come from a slow disk
double pass_seconds(const SketchJob& job, bool kept);

/// Hands a chunk of the first pass to the backend, and tells watchdog and progress that `done` of this rank's `all` rows that
/// the pass reads are there.
void take_chunk(const char* stage, const SketchJob& job, const ChunkBuffer& chunk, std::int64_t done, std::int64_t all,
                Backend& backend, const SolveContext& context);

/// Every row of this rank goes from the source to the backend. Returns ||b||^2 of these rows, column by column. Local.
/// known  their sketch is known already: the backend keeps the rows and no more
std::vector<double> upload_rows(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context,
                                bool known = false);

/// What is known beside the sketch itself, which the backend holds.
struct FinishedSketch {
  std::vector<int> exponents;   // column j of [A | b] was multiplied by 2^exponents[j]; empty: by 1
  std::vector<double> b_norms;  // (r): ||b||, of the b that was given; NaN where its squares overflow
  double b_norm = 0;            // over all columns
  double seconds = 0;           // that the pass took on the slowest rank; 0 for kept rows
  // (r): ||b||^2 of the columns as they were sketched, multiplied by their powers of two; empty for kept rows
  std::vector<double> b_squares;
};

/// S [A | b], or the Gram matrix, on every rank, finite. Collective. A backend may be given another job on the same rows
/// afterwards.
/// b_norms  with job.kept: those of the job that read the rows, column by column; otherwise empty
/// report   passes, bytes read, scaling and its warning are added
/// Errors  kNonFinite for NaN and Inf, with their place; with --scaling none also for what the sketch cannot hold
FinishedSketch sketch_in_range(const SketchJob& job, const std::vector<double>& b_norms, RowSource& source,
                               Backend& backend, const SolveContext& context, Report& report);

/// ||b|| of each column, from b_squares and exponents; NaN where the squares of a finite b overflow (fp64, --scaling none).
std::vector<double> norms_of_b(const std::vector<double>& squares, const std::vector<int>& exponents, std::int64_t n);

/// What is accumulated, for messages: "fp32 sketch", "Gram matrix".
std::string describe_compression(const SketchJob& job);

/// S (b - A x), (d, r) row-major, of the A and b that were given. Rank 0.
/// x  (n, r) row-major, for that A
std::vector<double> residual_by_sketch(const FinishedSketch& sketch, const ProblemShape& shape,
                                       const std::vector<double>& x, Backend& backend);

/// Tells a factor of the sketch of the powers of two in it, so that they are undone on x, exactly.
void add_exponents(const std::vector<int>& exponents, TriangularFactor& factor);

}  // namespace tallsketch
