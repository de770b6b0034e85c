// Sets of global rows as sorted, disjoint ranges: which rows a sketch covers. Pure.
// Used by sketch files and checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/row_range.h"

namespace tallsketch {

/// Sorted, without empty ranges, adjacent ones joined. The ranges given may touch but not overlap.
std::vector<RowRange> joined_ranges(std::vector<RowRange> ranges);

/// A row that is in two of the ranges; -1 where there is none. An order is not needed.
std::int64_t row_given_twice(std::vector<RowRange> ranges);

std::int64_t count_rows(const std::vector<RowRange>& ranges);

/// "[0, 3000)", "[0, 10), [20, 30) and 5 more"
std::string describe(const std::vector<RowRange>& ranges);

}  // namespace tallsketch
