// Hdf5Dataset: a StoredMatrix in an HDF5 file, read raw (the file's own type) in blocks below HDF5's 2 GiB limit.
// Made by Hdf5File. One thread a rank calls it.
#pragma once

#include <cstdint>
#include <string>

#include "src/hdf5_file.h"
#include "src/stored_matrix.h"

namespace tallsketch {

class Hdf5Dataset final : public StoredMatrix {
 public:
  /// by_columns  it will be read by columns: the cache then holds columns of chunks
  /// Errors      kInput: no such dataset (lists those there), type, rank, filter, virtual or external layout, never written
  Hdf5Dataset(const Hdf5File& file, const std::string& name, bool by_columns);

  /// Largest number of bytes in one H5Dread; tests lower it.
  static std::int64_t block_bytes;

 private:
  Hdf5Dataset(const Hdf5File& file, const std::string& name, Hdf5Handle dataset);
  void read_selection(RowRange rows, RowRange cols, std::byte* out, std::int64_t pitch);
  void read_rows_by_library(RowRange rows, std::byte* out) override;
  void read_columns_by_library(RowRange cols, std::byte* out, std::int64_t pitch) override;
  std::string library_mode() const override;

  Hdf5Handle dataset_, file_type_;
  bool parallel_ = false;
};

}  // namespace tallsketch
