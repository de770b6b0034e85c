// Checkpoint: all that a run needs to go on where another was stopped, and its file. Pure, but for the file; of rank 0.
// Kept up to date by checkpoint_keeper.
//
//   /sketch      (d, n + r) float64, or the Gram matrix (n + r, n + r): summed over all ranks, of the rows that are done
//   /b_squares   (r) float64
//   /pass_sums   (passes, n r + r) float64: what each pass of the refinement gave; missing before the first
//   /identity    text, JSON: the run, the attempt, rows done, which x each pass was asked for; attribute `checksum`
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/attempt.h"
#include "src/refine.h"
#include "src/row_range.h"
#include "src/stored_sketch.h"

namespace tallsketch {

/// A pass of the refinement that is done: what was asked, and the answer.
struct LoggedPass {
  std::string question;  // question_of(x, with_b)
  NormalSums sums;
};

/// 64 bits, as text, that two x share by accident only.
std::string question_of(const std::vector<double>& x, bool with_b);

struct Checkpoint {
  // What must be the same in the run that goes on: the input, and every option that x depends on.
  std::vector<IdentityField> run;
  // The attempt under way, with all that its S depends on: a sketch file may say other than the run's options.
  Attempt attempt;             // attempt.fixed_rows: d
  std::vector<int> exponents;  // its columns are multiplied by 2^exponents[j]; empty: by 1
  std::vector<RowRange> rows;  // that are in its sketch; sorted, disjoint, not adjacent
  std::vector<double> sketch;  // of those rows, unscaled
  std::vector<double> b_squares;
  std::vector<LoggedPass> passes;     // of the refinement that follows
  std::vector<std::string> warnings;  // of earlier attempts
};

std::vector<std::byte> checkpoint_image(const Checkpoint& checkpoint);

/// sketch  what the run was asked for: of the attempt's options those that S does not depend on
/// Errors  kInput: no checkpoint, another version, corrupt, sizes that are not those of its run
Checkpoint read_checkpoint(const std::string& path, const SketchOptions& sketch);

/// The identity as text and back, without values and passes: for ranks that do not read the file.
std::string checkpoint_json(const Checkpoint& checkpoint);
Checkpoint parse_checkpoint(const std::string& text, const std::string& what, const SketchOptions& sketch,
                            std::int64_t most_columns = kMaxSketchRows);

/// Errors  where a field differs, naming it and both values: kInput if it is of the input, else kUsage
void require_same_run(const Checkpoint& stored, const std::vector<IdentityField>& now, const std::string& path);

}  // namespace tallsketch
