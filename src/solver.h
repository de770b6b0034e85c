// The solver: least squares from a row source to x. One page; read solver.cpp first.
// Called by drivers/solve.cpp, the benchmark and tests.
#pragma once

#include <vector>

#include "src/backend.h"
#include "src/options.h"
#include "src/report.h"
#include "src/row_source.h"
#include "src/solution.h"

namespace tallsketch {

class Communicator;
class Progress;
class Watchdog;
class CheckpointKeeper;
struct MadeSketch;

/// What a run needs besides its options; all outlive the solve.
struct SolveContext {
  const Communicator& comm;
  Watchdog& watchdog;
  Progress& progress;
  PhaseTimer& timer;
  CheckpointKeeper* keeper = nullptr;  // of a run that saves itself
};

/// Rows that the backend keeps, from an earlier attempt or made up by a benchmark.
struct KeptRows {
  SketchJob job;                // their plan
  std::vector<double> b_norms;  // (r): ||b||, column by column
};

/// min_x ||A x - b||^2 + ridge ||x||^2. sketch-solve: one pass over A (three where values leave the sketch's range), d = O(n)
/// sketch rows, x from the sketch. refine: a preconditioner from one pass (a sketch, or the Gram matrix), then passes over A
/// until the backward error of x is certified; what cannot resolve A's condition is made again in what can. A refinement
/// that does not converge is no Error: x is the best seen, report.solver.converged false, and why.
/// Collective; every rank throws the same Error, or none.
/// kept    rows of the source that the backend has already; null: all are read from the source
/// made    a sketch of all rows to begin with; null: the first attempt makes one
/// report  filled as far as the run came, also when an Error leaves
Solution solve(const SketchOptions& sketch, const MethodOptions& method, std::uint64_t chunk_rows, RowSource& source,
               Backend& backend, const SolveContext& context, Report& report, const KeptRows* kept = nullptr,
               const MadeSketch* made = nullptr);

}  // namespace tallsketch
