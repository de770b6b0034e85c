// RowPass: walks a rank's rows chunk by chunk. Local: the caller agrees on errors afterwards.
// Called by solver (sketch), non_finite and generate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/row_range.h"

namespace tallsketch {

/// Calls visit(RowRange) for consecutive chunks of at most chunk_rows rows that cover `rows` once, in order.
template <class F>
void for_each_chunk(RowRange rows, std::int64_t chunk_rows, F&& visit) {
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += std::min(chunk_rows, rows.end - begin)) {
    visit(RowRange{begin, begin + std::min(chunk_rows, rows.end - begin)});
  }
}

}  // namespace tallsketch
