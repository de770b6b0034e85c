// Hdf5File: the HDF5 C library behind owners that close and calls that are checked.
// The only file that includes hdf5.h; one thread a rank calls. Used by hdf5_dataset, hdf5_type, hdf5_image, hdf5_writer and file_source.
#pragma once

#include <source_location>
#include <string>
#include <utility>

#include <hdf5.h>

#include "src/error.h"
#include "src/input_file.h"

namespace tallsketch {

class Communicator;

/// "1.10.8", of the library that this process runs with.
std::string hdf5_library_version();

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

/// Throws Error{kind} with HDF5's reason if a status or an identifier is negative.
void check_h5(long long status, ErrorKind kind, const std::string& what,
              std::source_location where = std::source_location::current());

class Hdf5File {
 public:
  /// Opens for reading. With parallel HDF5 and a communicator: collective, MPI-IO; else every rank on its own.
  /// Errors  kInput: missing, unreadable, not HDF5, truncated (both sizes), ...; agreed on by all ranks if a communicator
  ///         is given
  static Hdf5File open(const std::string& path, const Communicator* comm);

  bool has(const std::string& name) const;
  const std::string& path() const { return input_.path(); }
  const InputFile& input() const { return input_; }
  bool parallel() const { return parallel_; }
  hid_t handle() const { return file_.get(); }

 private:
  InputFile input_;
  Hdf5Handle file_;
  bool parallel_ = false;
};

}  // namespace tallsketch
