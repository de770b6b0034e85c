// What a solve settles before it reads rows: the route, and the plan that all ranks share. Collective.
// Called by solver.cpp.
#pragma once

#include "src/attempt.h"
#include "src/backend.h"
#include "src/row_source.h"

namespace tallsketch {

struct Report;
struct SolveContext;

/// The attempt to begin with: what was asked for, and where that leaves a choice, what the cost model expects to be fastest.
/// rows_kept  whether the backend keeps the rows already
/// Errors     kUsage for options that do not go together
Attempt first_attempt(const SketchOptions& sketch, const MethodOptions& method, const ProblemShape& shape,
                      bool rows_kept, Backend& backend, const SolveContext& context);

/// Sizes, memory, rows of every rank: the job of this rank, told to the user.
/// kept_job  the job whose rows the backend keeps, or null; the new one takes them over if its plan lets it
/// Errors    kUsage, kMemory
SketchJob plan_together(const Attempt& attempt, const MethodOptions& method, std::uint64_t chunk_rows,
                        const SketchJob* kept_job, const RowSource& source, Backend& backend,
                        const SolveContext& context, Report& report);

/// Seconds that rank 0 takes to factor the reduced problem, at most: the other ranks wait, and are not stuck.
double factor_seconds(const SketchJob& job);

}  // namespace tallsketch
