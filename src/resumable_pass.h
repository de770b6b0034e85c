// The first pass of a run with checkpoints: rows that were done are not sketched again, the sketch so far is saved on time, and
// a signal stops all ranks at a chunk border. Called by sketch_pass.
#pragma once

#include <cstdint>
#include <vector>

#include "src/backend.h"
#include "src/row_source.h"

namespace tallsketch {

struct SolveContext;

struct ResumedRows {
  std::vector<double> b_squares;  // (r), local: ||b||^2 of the rows since the last save
  std::int64_t read = 0;          // by all ranks, in this run
};

/// Begins the job; every row of this rank that the checkpoint lacks goes from the source to the backend, and so do the others,
/// not to be sketched, where the backend keeps rows. Collective.
/// Errors  kStopped at a signal, with a checkpoint; and those of the source and of writing
ResumedRows upload_resumably(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context);

}  // namespace tallsketch
