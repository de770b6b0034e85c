// What `tallsketch sketch` does: the sketch of some rows of a matrix, by one pass over them; and the sum of such sketches.
// Called by drivers/sketch.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/backend.h"
#include "src/row_source.h"
#include "src/stored_sketch.h"

namespace tallsketch {

struct Report;
struct SolveContext;

/// Where the rows of a source stand in the matrix that they are rows of.
struct MatrixPlace {
  std::int64_t first_row = 0;
  std::int64_t total_rows = 0;  // 0: not known, or what the source has
};

/// The same S for these rows as a sketch of the whole matrix has, bit for bit: of the global row, not of the file's. By
/// default d depends on n alone. Collective; the values are on rank 0, the rest on all ranks.
/// report  filled as far as it came
/// Errors  kUsage for rows beyond total_rows, and what sketch_in_range throws, with global rows
StoredSketch sketch_rows_of(const SketchOptions& options, const MatrixPlace& place, std::uint64_t chunk_rows,
                            RowSource& source, Backend& backend, const SolveContext& context, Report& report);

/// The sum of the sketches of files of disjoint rows, read one after the other. Local.
/// Order   of summation: that of the paths
/// Errors  kInput: a file that is none or corrupt, sketches that differ, rows given twice
StoredSketch merged_sketches(const std::vector<std::string>& paths);

}  // namespace tallsketch
