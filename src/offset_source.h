// OffsetSource: the rows of another source at their place in a larger matrix: row k of it is global row first_row + k. S is a
// rule of the global row, so this is all that a sketch of a shard needs. Made by sketch_rows_of (src/sketching.h).
#pragma once

#include "src/row_source.h"

namespace tallsketch {

class OffsetSource final : public RowSource {
 public:
  /// The source outlives this.
  OffsetSource(RowSource& source, std::int64_t first_row) : source_(source), first_row_(first_row) {}

  /// Of the source: m is the number of its rows, not one past the last.
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  void read(RowRange rows, void* a, double* b) override { source_.read(local(rows), a, b); }
  Encoding encoding() const override { return source_.encoding(); }
  void read_encoded(RowRange rows, void* a, double* b) override { source_.read_encoded(local(rows), a, b); }
  std::string identity() const override { return source_.identity(); }
  std::int64_t buffer_bytes() const override { return source_.buffer_bytes(); }
  std::optional<StoredPlace> place_of(std::int64_t row, bool of_b) const override {
    return source_.place_of(row - first_row_, of_b);
  }
  void check_unchanged() const override { source_.check_unchanged(); }

 private:
  RowRange local(RowRange rows) const { return {rows.begin - first_row_, rows.end - first_row_}; }

  RowSource& source_;
  std::int64_t first_row_;
};

}  // namespace tallsketch
