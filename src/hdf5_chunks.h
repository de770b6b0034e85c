// Chunks of a dataset: whether each holds as many bytes as its shape asks for. HDF5 1.10 does not look: where a damaged file
// claims less than is stored, or compressed bytes to be plain, it gives what memory held before, without an error.
// Used by hdf5_dataset. As all of HDF5, one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/hdf5_file.h"
#include "src/row_range.h"

namespace tallsketch {

class Hdf5Chunks {
 public:
  Hdf5Chunks() = default;
  /// Judges what can be judged before anything is read.
  /// dataset  open, in chunks, with filters that are there
  /// where    for messages: "dataset /A of 'x.h5'"
  /// rows, cols, element_bytes  of the dataset
  /// Errors   kInput: more chunks than the shape has; chunks without compression of another size than their shape's; filters
  ///          that were made for other chunks
  Hdf5Chunks(hid_t dataset, const std::string& where, std::int64_t rows, std::int64_t cols, std::int64_t element_bytes);

  std::array<std::int64_t, 2> shape() const { return chunk_; }
  /// Of a chunk as it is computed with.
  std::int64_t bytes() const { return bytes_; }
  /// Chunks that HDF5 would read as the fill value, because they were never written.
  std::int64_t missing() const { return missing_; }

  /// Judges the compressed chunks of a selection, each once, before HDF5 decompresses them: none may say that it is not
  /// compressed, and the first one has to become as many bytes as its shape asks for.
  /// what    for messages: "cannot read rows ..."
  /// Errors  kInput
  /// Cost    their compressed bytes are read once more
  void check(hid_t dataset, RowRange rows, RowRange cols, const std::string& what);

 private:
  struct Index {
    std::int64_t row, col;
  };
  void check_compressed(hid_t dataset, Index chunk, const std::string& what);

  std::array<std::int64_t, 2> shape_ = {0, 0}, chunk_ = {1, 1}, grid_ = {0, 0};
  std::int64_t bytes_ = 0, missing_ = 0;
  int deflate_ = -1;           // its place among the filters; -1: not there
  std::int64_t inflated_ = 0;  // bytes of a chunk that it was given; 0: not known
  std::int64_t plain_ = 0;     // bytes of a stored chunk that is not compressed
  bool border_plain_ = false;  // chunks that the matrix does not fill go through no filter: the file says so
  bool sized_ = false;         // the first compressed chunk had the right size
  std::vector<bool> seen_;     // chunks that were judged
};

}  // namespace tallsketch
