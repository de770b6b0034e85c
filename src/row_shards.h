// RowShards: one matrix in row shards, each a StoredMatrix of any format and orientation. Used by file_source for A and b.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encoding.h"
#include "src/row_range.h"
#include "src/stored_matrix.h"

namespace tallsketch {

class RowShards {
 public:
  struct Shard {
    std::unique_ptr<StoredMatrix> data;
    bool by_columns = false;  // stored (columns, rows)
    std::int64_t first_row = 0;
    std::int64_t rows() const { return by_columns ? data->facts().cols : data->facts().rows; }
    std::int64_t cols() const { return by_columns ? data->facts().rows : data->facts().cols; }
  };

  /// threads  that decode
  explicit RowShards(int threads) : threads_(threads) {}

  /// transposed  stored (columns, rows) where the file does not say otherwise; nothing to a vector
  void add(std::unique_ptr<StoredMatrix> data, bool transposed);
  /// Decides again which way all of them are stored.
  void set_transposed(bool transposed);

  const std::vector<Shard>& shards() const { return shards_; }
  const Shard& front() const { return shards_.front(); }
  std::int64_t rows() const;
  std::int64_t cols() const { return front().cols(); }
  /// How all shards that have rows are stored; nothing where they differ.
  std::optional<Encoding> encoding() const;

  /// Reads rows as they are stored. Limits: encoding() is one
  /// out     out (rows, cols) of encoding(), dense
  /// Errors  kInput
  void read_stored(RowRange rows, std::byte* out);
  /// Reads rows and decodes them, through a buffer of bounded size.
  /// out     out (rows, cols) row-major of out_type
  void read_decoded(RowRange rows, ElementType out_type, std::byte* out);
  /// The same in FP64, exact for every stored type, but for 64-bit integers beyond 2^53.
  void read_doubles(RowRange rows, double* out);

  /// Of the libraries' caches of all shards, and of the staging buffer where A's shards differ.
  std::int64_t buffer_bytes() const;

  /// Type, shape, orientation and place of every shard and identity of its file, in one line.
  std::string identity() const;

  /// Bytes of the buffer for what must be decoded; a row at least. Tests lower it.
  static std::int64_t staging_bytes;

 private:
  template <class F>
  void for_each_part(RowRange rows, F&& f);
  template <class F>
  void for_each_staged(RowRange rows, F&& f);
  static Encoding encoding_of(const Shard& shard);

  int threads_;
  std::vector<Shard> shards_;
  std::vector<std::byte> staging_, natural_;
};

}  // namespace tallsketch
