// RowPass: walks a rank's rows chunk by chunk. Local: the caller agrees on errors afterwards.
// Called by solver (sketch) and by locate_non_finite.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/row_range.h"

namespace tallsketch {

/// Calls visit(RowRange) for consecutive chunks of at most chunk_rows rows that cover `rows` once, in order.
template <class F>
void for_each_chunk(RowRange rows, std::int64_t chunk_rows, F&& visit) {
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += chunk_rows) {
    visit(RowRange{begin, std::min(rows.end, begin + chunk_rows)});
  }
}

}  // namespace tallsketch
