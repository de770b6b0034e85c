// The reduced problem of one attempt: what all rows became, and what rank 0 makes of it. Called by solver.cpp.
#pragma once

#include "src/backend.h"
#include "src/options.h"
#include "src/reduced_solver.h"
#include "src/sketch_pass.h"
#include "src/solution.h"
#include "src/triangular_factor.h"

namespace tallsketch {

struct Report;

/// What is known once the rows are compressed and, on rank 0, the reduced problem is solved.
struct Reduced {
  SketchJob job;
  FinishedSketch sketch;
  TriangularFactor factor;   // rank 0
  ReducedSolution solution;  // rank 0; without rank where the Gram matrix had no Cholesky factor
};

/// The triangle of the sketch, or of the Gram matrix, x from it, and what it says of A. Rank 0.
/// last     whether no finer attempt follows where this one does not resolve A; otherwise nothing is spent on naming columns
/// reduced  in job and sketch, out factor and solution
void solve_reduced_problem(const MethodOptions& method, bool last, Backend& backend, Reduced& reduced);

/// One pass: x from the sketch, and what the sketch itself says of how good it is. Rank 0.
Solution sketched_solution(const Reduced& reduced, Backend& backend, Report& report);

}  // namespace tallsketch
