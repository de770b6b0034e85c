// RowSource: where rows of [A | b] come from. A new kind of input is a new RowSource.
// Made by the drivers, read by read_ahead and non_finite. One thread a rank calls it at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encoding.h"
#include "src/problem_shape.h"
#include "src/row_range.h"

namespace tallsketch {

/// How the source is stored, for the report and the log.
struct SourceInfo {
  std::vector<std::string> files;
  std::string a_name, b_name;
  std::string dtype;   // of A, as stored: "float32", "float64 big-endian", "int16", ...
  std::string layout;  // "contiguous, stored (n, m)", "chunked (2048 x 121), gzip, shuffle", "made as it is read"
  std::string io_mode;
  std::vector<std::string> warnings;
  std::string narrowing = {};  // what made A narrower than it is stored; empty: nothing did
};

/// Where a row is stored, for messages.
struct StoredPlace {
  std::string file, dataset;
  std::int64_t row = 0;  // of that dataset
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual const ProblemShape& shape() const = 0;
  virtual const SourceInfo& info() const = 0;

  /// Reads rows of A and b. Local: no communication, so ranks may read different numbers of rows, or none.
  /// a       out (rows, n) row-major, element type shape().a_type, native byte order
  /// b       out (rows, r) row-major float64, exact for every stored type
  /// Errors  kInput, naming file and dataset
  virtual void read(RowRange rows, void* a, double* b) = 0;

  /// How read_encoded delivers A. Plain: as read does.
  virtual Encoding encoding() const { return plain_encoding(shape().a_type); }
  /// The same rows as they are stored, so that a backend can decode them where it computes (kernels/decode_*.h).
  /// a       out (rows, n) row-major of encoding(), or (n, rows) by columns, dense
  /// b       as for read
  virtual void read_encoded(RowRange rows, void* a, double* b) { read(rows, a, b); }

  /// What must not have changed where a run goes on from a checkpoint: one line of text, equal only for equal input.
  /// Empty: nothing can be said.
  virtual std::string identity() const { return {}; }

  /// Memory that reading takes beside the caller's buffers, at most: caches of a library, staging.
  virtual std::int64_t buffer_bytes() const { return 0; }

  /// Of a row of A, or of b; nothing where rows are not stored.
  virtual std::optional<StoredPlace> place_of(std::int64_t, bool /*of_b*/) const { return std::nullopt; }

  /// Local: throws Error{kInput} if what was opened has changed since (a file shortened while it is read gives zeros).
  virtual void check_unchanged() const {}
};

}  // namespace tallsketch
