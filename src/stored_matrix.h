// StoredMatrix: one matrix or vector of a file, as it is stored, whatever the format. A new format is a new StoredMatrix.
// Made by hdf5_dataset and npy_file, read by row_shards.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/encoding.h"
#include "src/direct_reader.h"
#include "src/row_range.h"

namespace tallsketch {

struct StoredFacts {
  std::string path, name;           // of file and dataset; no name where a file holds one array
  std::string layout;               // "contiguous", "chunked (64 x 7), gzip", ...
  std::int64_t rows = 0, cols = 1;  // in C order as stored; a vector is one column
  int rank = 2;                     // 1: a vector
  StoredType type = StoredType::kFloat32;
  bool big_endian = false;       // to tell
  bool fortran = false;          // the file says that rows and columns are exchanged (.npy)
  bool matlab = false;           // written by MATLAB, which stores its matrices transposed
  std::int64_t offset = -1;      // in bytes from the start of the file, where all elements lie in one run; else -1
  std::int64_t cache_bytes = 0;  // that the library may hold of it, at most, until it is released
  std::string place;             // what tells this dataset from others of the file that look the same
  std::string file_identity;     // InputFile::identity
  std::vector<std::string> warnings;

  /// Bytes in the order that is not this machine's.
  bool swapped() const { return stored_size(type) > 1 && big_endian != (std::endian::native == std::endian::big); }
};

class StoredMatrix {
 public:
  explicit StoredMatrix(StoredFacts facts) : facts_(std::move(facts)) {}
  virtual ~StoredMatrix();
  StoredMatrix(const StoredMatrix&) = delete;
  StoredMatrix& operator=(const StoredMatrix&) = delete;

  const StoredFacts& facts() const { return facts_; }
  std::int64_t element_bytes() const { return stored_size(facts_.type); }

  /// Reads stored rows, bytes as they are.
  /// out     out (rows.size(), cols) dense
  /// Errors  kInput
  void read_rows(RowRange rows, std::byte* out);
  /// Reads stored columns, and none beside them.
  /// out     out (rows, cols.size()), `pitch` bytes from row to row
  /// Errors  kInput
  void read_columns(RowRange cols, std::byte* out, std::int64_t pitch);

  /// From now on by positioned reads of the file, without its library. Errors: kInput. Limits: facts().offset >= 0
  void read_directly(std::shared_ptr<ReadTeam> team);
  /// Gives up what a library holds in memory of what was read; the next read may take it up again.
  virtual void release() {}
  bool is_direct() const { return direct_ != nullptr; }
  /// How it is read, for the report: "direct, 2 threads", "mpio independent", ...
  std::string io_mode() const { return is_direct() ? direct_mode() : library_mode(); }

 protected:
  /// The same by the library of the format; formats without one are read directly.
  virtual void read_rows_by_library(RowRange rows, std::byte* out);
  virtual void read_columns_by_library(RowRange cols, std::byte* out, std::int64_t pitch);
  virtual std::string library_mode() const { return ""; }

 private:
  std::string direct_mode() const;

  StoredFacts facts_;
  std::unique_ptr<DirectReader> direct_;
};

/// "float32 big-endian"
std::string type_text(const StoredFacts& facts);
/// "(2003, 7)" or "(2003)", as stored.
std::string shape_text(const StoredFacts& facts);
/// "dataset /A of 'x.h5'", "'x.npy'"
std::string place_text(const StoredFacts& facts);

}  // namespace tallsketch
