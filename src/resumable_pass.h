// The first pass of a run with checkpoints: rows that were done are not sketched again, the sketch so far is saved on time, and
// a signal stops all ranks at a chunk border. Called by sketch_pass.
#pragma once

#include <vector>

#include "src/backend.h"
#include "src/row_source.h"

namespace tallsketch {

struct SolveContext;

/// Begins the job; every row of this rank that the checkpoint lacks goes from the source to the backend, and so do the others,
/// not to be sketched, where the backend keeps rows. Returns ||b||^2 of the rows since the last save. Collective.
/// Errors  kStopped at a signal, with a checkpoint; and those of the source and of writing
std::vector<double> upload_resumably(const SketchJob& job, RowSource& source, Backend& backend,
                                     const SolveContext& context);

}  // namespace tallsketch
