// Hdf5Dataset: a StoredMatrix in an HDF5 file, read raw (the file's own type) in blocks below HDF5's 2 GiB limit.
// Made by file_source. One thread a rank calls it.
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

  /// Closes a dataset in chunks, and with it HDF5's cache of them; the next read opens it again.
  void release() override;

  /// Largest number of bytes in one H5Dread; tests lower it.
  static std::int64_t block_bytes;

 private:
  struct Opened {
    Hdf5Handle access, dataset;
  };
  Hdf5Dataset(const Hdf5File& file, const std::string& name, Opened opened);
  static Opened open_cached(const Hdf5File& file, const std::string& name, bool by_columns);
  hid_t opened();
  void read_selection(RowRange rows, RowRange cols, std::byte* out, std::int64_t pitch);
  void read_rows_by_library(RowRange rows, std::byte* out) override;
  void read_columns_by_library(RowRange cols, std::byte* out, std::int64_t pitch) override;
  std::string library_mode() const override;

  hid_t file_;          // of the Hdf5File, which outlives this
  Hdf5Handle access_;   // how the dataset is opened
  Hdf5Handle dataset_;  // open, or, of a dataset in chunks, released
  Hdf5Handle file_type_;
  bool parallel_ = false;
};

}  // namespace tallsketch
