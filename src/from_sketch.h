// Solving from a sketch that is made already: without A, x of the sketch alone; with A, the refinement's first attempt.
// Called by drivers/solve.cpp and solver.cpp.
#pragma once

#include <string>

#include "src/attempt.h"
#include "src/backend.h"
#include "src/row_source.h"
#include "src/sketch_pass.h"
#include "src/solution.h"
#include "src/stored_sketch.h"

namespace tallsketch {

class Communicator;
struct Report;
struct SolveContext;

/// Copies of the sketch in FP64 that a MadeSketch is on rank 0, as long as the run takes.
inline constexpr int kMadeCopies = 1;

/// A sketch from a file.
struct MadeSketch {
  StoredSketch sketch;  // the values on rank 0 alone
  std::string name;     // of the file
};

/// Collective: rank 0 reads the file. Errors: as read_sketch
MadeSketch read_made_sketch(const std::string& path, const Communicator& comm);

/// What a report says of the input where there is no A.
SourceInfo info_of(const MadeSketch& made);

/// The attempt that this sketch is. Refinement uses its check rows, too: it measures x by passes.
/// asked   what the command line says of sketches
/// Errors  kUsage where that, the method or the matrix contradicts the sketch
Attempt attempt_of(const MadeSketch& made, const SketchOptions& asked, const MethodOptions& method,
                   const ProblemShape& shape);

/// The same for the matrix of a source; of all its rows. Collective.
Attempt attempt_of_matrix(const MadeSketch& made, const SketchOptions& asked, const MethodOptions& method,
                          const ProblemShape& shape, const Communicator& comm);

/// Says in the report what the run begins with.
void note_sketch_file(const MadeSketch& made, Report& report);

/// In the place of a pass that sketches: the backend holds the sketch, on rank 0, and has read the rows of the job if it
/// keeps rows. Collective.
/// source  null: there are no rows to keep
/// report  passes and bytes read are added
/// Errors  kInput where the rows read have another b
FinishedSketch take_sketch(const MadeSketch& made, const SketchJob& job, RowSource* source, Backend& backend,
                           const SolveContext& context, Report& report);

/// x of the rows that are in the sketch, by it alone: no row is read. Collective; what a second look at A would tell is
/// estimated from the sketch, as by any sketch-solve.
Solution solve_from_sketch(const MadeSketch& made, const SketchOptions& asked, const MethodOptions& method,
                           Backend& backend, const SolveContext& context, Report& report);

}  // namespace tallsketch
