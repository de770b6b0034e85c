#include "src/stored_matrix.h"

#include <fmt/format.h>

#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

StoredMatrix::~StoredMatrix() = default;

void StoredMatrix::read_rows(RowRange rows, std::byte* out) {
  require(rows.begin >= 0 && rows.end <= facts_.rows, ErrorKind::kInternal,
          fmt::format("rows {} to {} of {} with {} rows", rows.begin, rows.end, place_text(facts_), facts_.rows));
  if (rows.empty()) return;
  if (direct_ == nullptr) {
    read_rows_by_library(rows, out);
    return;
  }
  const std::int64_t row_bytes = facts_.cols * element_bytes();
  direct_->read({facts_.offset + rows.begin * row_bytes, 0, rows.size() * row_bytes, 1, 0}, out);
}

void StoredMatrix::read_columns(RowRange cols, std::byte* out, std::int64_t pitch) {
  require(cols.begin >= 0 && cols.end <= facts_.cols, ErrorKind::kInternal,
          fmt::format("columns {} to {} of {} with {} columns", cols.begin, cols.end, place_text(facts_), facts_.cols));
  if (cols.empty()) return;
  if (direct_ == nullptr) {
    read_columns_by_library(cols, out, pitch);
    return;
  }
  const std::int64_t width = element_bytes();
  direct_->read({facts_.offset + cols.begin * width, facts_.cols * width, cols.size() * width, facts_.rows, pitch},
                out);
}

void StoredMatrix::read_directly(std::shared_ptr<ReadTeam> team) {
  require(facts_.offset >= 0 || facts_.rows * facts_.cols == 0, ErrorKind::kInternal, "nothing to read directly");
  direct_ = std::make_unique<DirectReader>(facts_.path, std::move(team));
}

void StoredMatrix::read_rows_by_library(RowRange, std::byte*) {
  throw Error(ErrorKind::kInternal, fmt::format("{} has no library to be read by", place_text(facts_)));
}

void StoredMatrix::read_columns_by_library(RowRange, std::byte*, std::int64_t) {
  throw Error(ErrorKind::kInternal, fmt::format("{} has no library to be read by", place_text(facts_)));
}

std::string StoredMatrix::direct_mode() const {
  return fmt::format("direct, {} thread{}", direct_->threads(), plural(direct_->threads()));
}

std::string type_text(const StoredFacts& facts) {
  return std::string(to_word(facts.type)) + (facts.big_endian ? " big-endian" : "");
}

std::string shape_text(const StoredFacts& facts) {
  return facts.rank == 1 ? fmt::format("({})", facts.rows) : fmt::format("({}, {})", facts.rows, facts.cols);
}

std::string place_text(const StoredFacts& facts) {
  return facts.name.empty() ? fmt::format("'{}'", facts.path)
                            : fmt::format("dataset {} of '{}'", facts.name, facts.path);
}

}  // namespace tallsketch
