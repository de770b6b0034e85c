// RowShards: one matrix in row shards, each a StoredMatrix of any format and orientation. Used by file_source for A and b.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encoding.h"
#include "src/host_buffer.h"
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

  /// Memory that read_decoded takes beside `out`, at most: a library's cache of one shard, and the buffer for what must be
  /// decoded.
  std::int64_t buffer_bytes(ElementType out_type) const;
  /// The same of read_doubles.
  std::int64_t buffer_bytes_of_doubles() const;

  /// Type, shape, orientation and place of every shard and identity of its file, in one line.
  std::string identity() const;

  /// Bytes of the buffer for what must be decoded, 1/32 of it for what becomes FP64; a row at least. Tests lower it.
  static std::int64_t staging_bytes;

 private:
  template <class F>
  void for_each_part(RowRange rows, F&& f);
  template <class F>
  void for_each_staged(RowRange rows, bool to_doubles, F&& f);
  /// Rows of a shard that are in the buffer at a time, and their bytes as stored and, on the way to FP64, as decoded.
  struct Staging {
    std::int64_t rows, stored_bytes, decoded_bytes;
  };
  Staging staging_of(const Shard& shard, bool to_doubles) const;
  std::int64_t buffer_bytes(bool stages, bool to_doubles) const;
  void read_part(const Shard& shard, RowRange rows, std::byte* out, std::int64_t pitch);
  static Encoding encoding_of(const Shard& shard);

  std::vector<Shard> shards_;
  StoredMatrix* last_read_ = nullptr;  // the one of the shards that may hold a cache
  HostBuffer staging_;
};

}  // namespace tallsketch
