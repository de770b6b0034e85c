// A rank's rows chunk by chunk: for_each_chunk walks, read_chunks reads ahead. Local: the caller agrees on errors afterwards.
// Called by sketch_pass, resumable_pass and refine_pass; for_each_chunk by whoever takes rows in chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "src/row_range.h"

namespace tallsketch {

class Backend;
class PhaseTimer;
class RowSource;
struct ChunkBuffer;

/// Calls visit(RowRange) for consecutive chunks of at most chunk_rows rows that cover `rows` once, in order.
template <class F>
void for_each_chunk(RowRange rows, std::int64_t chunk_rows, F&& visit) {
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += std::min(chunk_rows, rows.end - begin)) {
    visit(RowRange{begin, begin + std::min(chunk_rows, rows.end - begin)});
  }
}

/// squares[k] += ||b_k||^2 of the rows of a chunk as they were read, in their order. r  columns of b
void add_b_squares(const ChunkBuffer& chunk, std::int64_t r, std::vector<double>& squares);

/// Reads rows into the backend's buffers, one thread ahead of the others, and calls take(chunk) for each in order; take hands
/// it to the backend. Whatever take does on a device overlaps with the next reads.
/// timer   Phase::kRead grows by what reading took, whether anybody waited for it or not
/// go_on   asked before each chunk; false: what is on its way is taken, too, and that was all
/// Returns the first row that was not taken, rows.end if all were
/// Errors  those of the source and of take; kInput where the source changed meanwhile
std::int64_t read_chunks(
    RowRange rows, std::int64_t chunk_rows, RowSource& source, Backend& backend, PhaseTimer& timer,
    const std::function<void(const ChunkBuffer&)>& take, const std::function<bool()>& go_on = [] { return true; });

}  // namespace tallsketch
