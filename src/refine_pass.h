// Refinement over all ranks: rank 0 runs the algorithm (refine.h) and decides, every rank reads its rows of A for each
// pass. Called by solver.cpp.
#pragma once

#include <string>
#include <vector>

#include "src/backend.h"
#include "src/reduced_solver.h"
#include "src/refine.h"
#include "src/row_source.h"
#include "src/triangular_factor.h"

namespace tallsketch {

struct Report;
struct SolveContext;

/// b of the sketch that a refinement starts from, where it is a file's and nobody has read b yet. The same on all ranks.
struct BOfSketch {
  const std::vector<double>& squares;  // (r): ||b||^2, of columns as `source` gives them
  const std::string& name;             // of the file; empty: b is known to be the source's
};

/// What rank 0 starts from; unused on the others.
struct RefineStart {
  const TriangularFactor& factor;       // of the sketch, or of the Gram matrix
  const ReducedSolution& solution;      // its x and preconditioner
  const std::vector<double>& rhs_norm;  // (r): ||b||
};

/// Refines the sketch's solution until its backward error is certified, or until it is clear that it will not be.
/// Collective. The result is rank 0's; empty on the others.
/// b       compared with the b that the first pass over the source reads
/// kept    whether the rows that the backend keeps are those of `source`; otherwise every pass reads the source
/// report  passes and bytes read are added
/// Errors  kInput for another b; and those of the source and the backend
/// Order   of the sums of a pass: each rank's own, then MPI's over ranks; x is rank 0's alone
RefineResult refine_on_all_ranks(const SketchJob& job, const RefineStart& start, const BOfSketch& b,
                                 const RefineOptions& options, bool kept, RowSource& source, Backend& backend,
                                 const SolveContext& context, Report& report);

}  // namespace tallsketch
