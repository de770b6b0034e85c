// Hdf5File and Hdf5Dataset: the HDF5 C library behind owners that close and calls that are checked.
// The only file that includes hdf5.h. Read raw (the file's own type), one thread a rank. Used by hdf5_source,
// result_file and generate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hdf5.h>

#include "kernels/views.h"
#include "src/row_range.h"

namespace tallsketch {

class Communicator;

/// Owns one HDF5 identifier.
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// Quiet error stack, no plug-ins from outside. Idempotent; called by everything that opens a file.
void initialise_hdf5();

/// First line of HDF5's own explanation of the last failure, and forgets it.
std::string hdf5_error_text();

/// A dataset opened for reading rows. Shapes are (rows, cols); rank 1 counts as one column.
class Hdf5Dataset {
 public:
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  int rank() const { return rank_; }
  ElementType type() const { return type_; }
  bool big_endian() const { return big_endian_; }
  const std::string& layout() const { return layout_; }
  std::string type_text() const;
  /// Chunks that were never written: HDF5 reads them as the fill value, without an error. 0 before HDF5 1.10.5.
  std::int64_t missing_chunks() const { return missing_chunks_; }
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }

  /// Reads rows in native byte order, in blocks below HDF5's 2 GiB limit of an independent transfer.
  /// out     out (rows, cols) row-major, element type type()
  /// Errors  kInput
  void read(RowRange rows, void* out) const;
  std::int64_t storage_bytes() const { return rows_ * cols_ * element_size(type_); }

  /// Largest number of bytes in one H5Dread; tests lower it.
  static std::int64_t block_bytes;

 private:
  friend class Hdf5File;
  void inspect_type();
  void inspect_layout();
  void check_filters(hid_t creation) const;
  void count_missing_chunks(std::int64_t all);

  std::string path_, name_, layout_;
  Hdf5Handle dataset_, file_type_;
  int rank_ = 0;
  std::int64_t rows_ = 0, cols_ = 0, missing_chunks_ = 0;
  ElementType type_ = ElementType::kFloat32;
  bool big_endian_ = false;
};

class Hdf5File {
 public:
  /// Opens for reading. With parallel HDF5 and a communicator: collective, MPI-IO; else every rank on its own.
  /// Errors  kInput: missing, unreadable, not HDF5, truncated (both sizes), ...; agreed on by all ranks if collective
  static Hdf5File open(const std::string& path, const Communicator* comm);

  /// Errors  kInput: no such dataset (lists those there), type, rank, filter, virtual or external layout, never written
  Hdf5Dataset dataset(const std::string& name) const;
  bool has(const std::string& name) const;
  /// Errors: kInput when size or modification time differ from those at opening.
  void check_unchanged() const;
  const std::string& path() const { return path_; }
  /// Path, size and time of last modification, at opening.
  std::string identity() const;
  hid_t handle() const { return file_.get(); }
  bool parallel() const { return parallel_; }

 private:
  std::string path_;
  Hdf5Handle file_;
  bool parallel_ = false;
  std::int64_t bytes_ = 0, modified_ns_ = 0;  // at opening
};

}  // namespace tallsketch
