// Entry tables of a batch for the host sketch: which rows of the batch go to which sketch row, and with which sign
// (signed_entry.h).
// Called by sketch_host.cpp only. Needs a valid SketchSpec; allocates nothing.
#pragma once

#include <cstdint>

#include "kernels/sketch_spec.h"

namespace tallsketch::host {

/// 32-bit words of scratch that each function below needs.
std::int64_t table_scratch_words(const SketchSpec& spec);

/// Gather table of a batch: sketch row k owns entries [k * C, (k + 1) * C), C = fixed_rows_per_bucket(spec).
/// entries  out (d * C) = (zeta * T): entry_row = position of the row in the batch
/// Limits: C > 0
void fill_gather_table(const SketchSpec& spec, std::int64_t batch, std::uint32_t* entries, std::uint32_t* scratch);

/// Scatter table of rows [lo, hi) of a batch.
/// entries  out (zeta, T); written: columns [lo, hi), by position of the row; entry_row = sketch row in [0, d)
/// Limits: any family, any hash, any T
void fill_scatter_table(const SketchSpec& spec, std::int64_t batch, std::int64_t lo, std::int64_t hi,
                        std::uint32_t* entries, std::uint32_t* scratch);

}  // namespace tallsketch::host
