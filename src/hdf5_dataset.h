// Hdf5Dataset: a StoredMatrix in an HDF5 file, read raw (the file's own type) in blocks below HDF5's 2 GiB limit.
// Made by file_source. One thread a rank calls it.
#pragma once

#include <cstdint>
#include <string>

#include "src/hdf5_chunks.h"
#include "src/hdf5_file.h"
#include "src/stored_matrix.h"

namespace tallsketch {

class Hdf5Dataset final : public StoredMatrix {
 public:
  /// by_columns  it will be read by columns: the cache then holds columns of chunks
  /// Errors      kInput: no such dataset (lists those there), type, rank, filter, virtual or external layout, never written,
  ///             chunks that are not those of its shape
  Hdf5Dataset(const Hdf5File& file, const std::string& name, bool by_columns);

  /// Closes a dataset in chunks, and with it HDF5's cache of them; the next read opens it again.
  void release() override;
  /// Reads an element, and with it all of the first chunk, unless that has more bytes than `largest`; of a dataset that lies in
  /// one run of the file, nothing. For what may go wrong then. Errors: kInput
  void read_first_chunk(std::int64_t largest);

  /// Largest number of bytes in one H5Dread; tests lower it.
  static std::int64_t block_bytes;

 private:
  struct Opened {
    Hdf5Handle access, dataset;
  };
  Hdf5Dataset(const Hdf5File& file, const std::string& name, Opened opened, Hdf5Chunks chunks);
  static Opened open_cached(const Hdf5File& file, const std::string& name, bool by_columns);
  hid_t opened();
  void read_selection(RowRange rows, RowRange cols, std::byte* out, std::int64_t pitch);
  void read_rows_by_library(RowRange rows, std::byte* out) override;
  void read_columns_by_library(RowRange cols, std::byte* out, std::int64_t pitch) override;
  std::string library_mode() const override;

  Hdf5Chunks chunks_;
  hid_t file_;          // of the Hdf5File, which outlives this
  Hdf5Handle access_;   // how the dataset is opened
  Hdf5Handle dataset_;  // open, or, of a dataset in chunks, released
  Hdf5Handle file_type_;
  bool parallel_ = false;
};

}  // namespace tallsketch
