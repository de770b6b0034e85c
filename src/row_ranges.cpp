#include "src/row_ranges.h"

#include <algorithm>

#include <fmt/format.h>

namespace tallsketch {

namespace {

void sort_ranges(std::vector<RowRange>& ranges) {
  std::erase_if(ranges, [](const RowRange& range) { return range.empty(); });
  std::sort(ranges.begin(), ranges.end(), [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
}

}  // namespace

std::vector<RowRange> joined_ranges(std::vector<RowRange> ranges) {
  sort_ranges(ranges);
  std::vector<RowRange> joined;
  for (const RowRange& range : ranges) {
    if (!joined.empty() && joined.back().end == range.begin) {
      joined.back().end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

std::int64_t row_given_twice(std::vector<RowRange> ranges) {
  sort_ranges(ranges);
  std::int64_t end = 0;
  for (const RowRange& range : ranges) {
    if (range.begin < end) return range.begin;
    end = std::max(end, range.end);
  }
  return -1;
}

std::int64_t count_rows(const std::vector<RowRange>& ranges) {
  std::int64_t rows = 0;
  for (const RowRange& range : ranges) rows += range.size();
  return rows;
}

std::string describe(const std::vector<RowRange>& ranges) {
  constexpr std::size_t kMost = 8;
  std::string text = ranges.empty() ? "none" : "";
  for (std::size_t i = 0; i < std::min(kMost, ranges.size()); ++i) {
    text += fmt::format("{}[{}, {})", i == 0 ? "" : ", ", ranges[i].begin, ranges[i].end);
  }
  if (ranges.size() > kMost) text += fmt::format(" and {} more", ranges.size() - kMost);
  return text;
}

}  // namespace tallsketch
