// StudyOutput: what every study prints, a CSV line a case and a table for people. Made by the study drivers on rank 0.
#pragma once

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/atomic_file.h"
#include "src/error.h"
#include "src/spread.h"

namespace tallsketch {

/// A text as one field: commas become semicolons.
inline std::string csv_word(std::string text) {
  std::replace(text.begin(), text.end(), ',', ';');
  return text;
}

/// "median,least,largest", or two commas where there is nothing.
inline std::string spread_fields(const std::vector<double>& values) {
  if (values.empty()) return ",,";
  const Spread spread = spread_of(values);
  return fmt::format("{:.6g},{:.6g},{:.6g}", spread.median, spread.least, spread.largest);
}

/// The median for a table, or "-".
inline std::string median_cell(const std::vector<double>& values) {
  return values.empty() ? std::string("-") : fmt::format("{:.3g}", spread_of(values).median);
}

/// CSV to standard output as it comes, or collected for a file that appears at the end; the table to standard error,
/// unless quiet. The headers come with the first line, so that a run that is refused prints its one message.
class StudyOutput {
 public:
  /// output        CSV file; empty: standard output
  /// csv_header    with its line end, as all lines are
  /// Errors        kOutput where the file cannot be made
  StudyOutput(const std::string& output, bool quiet, std::string csv_header, std::string table_header)
      : name_(output), table_(!quiet), csv_header_(std::move(csv_header)), table_header_(std::move(table_header)) {
    if (!output.empty()) file_.emplace(output);
  }
  StudyOutput(const StudyOutput&) = delete;
  StudyOutput& operator=(const StudyOutput&) = delete;
  /// Without finish(), because of an error: writes the lines that there are, which may have taken hours, and says so.
  ~StudyOutput() {
    if (!file_ || empty_ || finished_) return;
    try {
      finish();
      std::fputs(fmt::format("tallsketch: {} is incomplete, because of an error\n", name_).c_str(), stderr);
    } catch (const Error& e) {
      std::fputs(fmt::format("tallsketch: {} is lost: {}\n", name_, e.what()).c_str(), stderr);
    }
  }
  void add(const std::string& csv, const std::string& table) {
    if (table_) std::fputs(((empty_ ? table_header_ : "") + table).c_str(), stderr);
    const std::string text = (empty_ ? csv_header_ : "") + csv;
    empty_ = false;
    if (file_) {
      text_ += text;
    } else {
      std::fputs(text.c_str(), stdout);
      std::fflush(stdout);
    }
  }
  void finish() {
    finished_ = true;
    if (!file_) return;
    file_->write(std::as_bytes(std::span(text_)), 0);
    file_->commit();
  }

 private:
  std::string name_;
  bool table_;
  std::string csv_header_, table_header_;
  bool empty_ = true, finished_ = false;
  std::optional<AtomicFile> file_;
  std::string text_;  // of the file
};

}  // namespace tallsketch
