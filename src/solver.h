// The solver: least squares from a row source to x. One page; read solver.cpp first.
// Called by drivers/solve.cpp and by tests.
#pragma once

#include <memory>
#include <vector>

#include "src/backend.h"
#include "src/options.h"
#include "src/report.h"
#include "src/row_source.h"

namespace tallsketch {

class Communicator;
class Progress;
class Watchdog;

/// What a run needs besides its options; all outlive the solve.
struct SolveContext {
  const Communicator& comm;
  Watchdog& watchdog;
  Progress& progress;
  PhaseTimer& timer;
};

/// min_x ||A x - b||. sketch-solve: one pass over A (three where values leave the sketch's range), d = O(n) sketch rows, x
/// from the QR of the sketch. refine: then passes over A until the backward error of x is certified; float64 data whose
/// condition an FP32 sketch cannot resolve are sketched again in FP64. A refinement that does not converge is no Error: x
/// is the best seen, report.solver.converged false, and why.
/// Collective; every rank throws the same Error, or none.
/// report  filled as far as the run came, also when an Error leaves
/// Returns x, (n, r) row-major FP64, on rank 0; empty on the others
std::vector<double> solve(const SketchOptions& sketch, const MethodOptions& method, std::uint64_t chunk_rows,
                          RowSource& source, Backend& backend, const SolveContext& context, Report& report);

}  // namespace tallsketch
