// What a solve settles before it reads rows: the route, and the plan that all ranks share. Collective.
// Called by solver.cpp.
#pragma once

#include <string>

#include "src/attempt.h"
#include "src/backend.h"
#include "src/row_source.h"

namespace tallsketch {

class Communicator;
class Progress;
struct Report;
struct SolveContext;

/// --tol, or by the type of A: what its own rounding, and that of products with it, lets any solver reach.
double tolerance_for(const MethodOptions& method, ElementType stored);

/// Errors  kUsage for options of the method that do not go together
void check_method(const SketchOptions& sketch, const MethodOptions& method, const ProblemShape& shape);

/// The sketch of a file: sketch-solve's, with the d that a matrix of endlessly many rows gets where none is asked for, so that
/// sketches of parts agree.
Attempt attempt_for_file(const SketchOptions& sketch, const ProblemShape& shape);

/// The attempt to begin with: what was asked for, and where that leaves a choice, what the cost model expects to be fastest.
/// ranks      that the solve will have
/// rows_kept  whether the backend keeps the rows already
/// Errors     kUsage for options that do not go together
Attempt first_attempt(const SketchOptions& sketch, const MethodOptions& method, const RowSource& source, int ranks,
                      bool rows_kept, Planner& planner, const Communicator& comm, Progress& progress);

/// What a job is before its plan: S, shape and what the rows become. Errors: kUsage
SketchJob unplanned_job(const Attempt& attempt, const MethodOptions& method, const RowSource& source);

/// "sketch: sparsestack, ..., seed 0", "preconditioner: FP64 Gram matrix of A"
std::string describe_job(const SketchJob& job);

/// What a backend says for a job, the same on all ranks: the least of their memories. Collective.
PlanLimits agreed_limits(const SketchJob& job, std::uint64_t chunk_rows, Planner& planner, const Communicator& comm);

/// Sizes, memory, rows of every rank, passes and seconds; without the rows of this one. Collective.
/// kept_job  the job whose rows the backend keeps, or null; the new one takes them over if its plan lets it
/// ranks     that the solve will have
/// Errors    kUsage, kMemory
SketchJob planned_job(const Attempt& attempt, const MethodOptions& method, std::uint64_t chunk_rows,
                      const SketchJob* kept_job, const RowSource& source, int ranks, Planner& planner,
                      const Communicator& comm);

/// The same for all ranks that there are: the job of this rank, told to the user.
SketchJob plan_together(const Attempt& attempt, const MethodOptions& method, std::uint64_t chunk_rows,
                        const SketchJob* kept_job, const RowSource& source, Backend& backend,
                        const SolveContext& context, Report& report);

/// Passes over A that the refinement of a job is expected to take; 0 without one.
/// method  with its tolerance, or 0
double refinement_passes(const MethodOptions& method, const SketchJob& job);

/// Seconds that rank 0 takes to factor the reduced problem, at most: the other ranks wait, and are not stuck.
double factor_seconds(const SketchJob& job);

}  // namespace tallsketch
