// Hdf5Image: a small HDF5 file put together in memory, so that its bytes reach the disk whole, through atomic_file.
// Used by hdf5_writer (x), sketch_file and checkpoint. hdf5_text reads back what add_text wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/views.h"
#include "src/hdf5_file.h"

namespace tallsketch {

/// The identifier, or status, of a call of HDF5 that writes. Errors: kOutput, with the call's name and HDF5's reason
hid_t checked_output(hid_t id, const char* call);

/// A text attribute of an open object, below 64 KiB. Errors: kOutput
void write_hdf5_text(hid_t object, const char* name, const std::string& text);

/// Errors of all functions: kOutput, with HDF5's own reason.
class Hdf5Image {
 public:
  Hdf5Image();

  /// A dataset of doubles, stored as such or, rounded, as floats; little-endian, contiguous.
  /// name    "/x"
  /// values  (rows, cols) row-major
  /// rank    1: (rows), for cols = 1; 2: (rows, cols)
  void add(const char* name, const std::vector<double>& values, std::int64_t rows, std::int64_t cols, int rank,
           ElementType stored = ElementType::kFloat64);
  /// A scalar dataset of UTF-8 text, of any length.
  void add_text(const char* name, const std::string& text);
  /// A text attribute of a dataset, below 64 KiB (more needs a file format whose images HDF5 1.10 writes wrongly).
  void add_attribute(const char* dataset, const char* name, const std::string& text);
  /// The whole file.
  std::vector<std::byte> bytes() const;

 private:
  Hdf5Handle file_;
};

/// The text of a scalar dataset that add_text wrote. Errors: kInput for a missing or other dataset, or one that claims more
/// bytes than the file has
std::string hdf5_text(const Hdf5File& file, const std::string& name);

/// The text of an attribute; the same errors.
std::string hdf5_text_attribute(const Hdf5File& file, const std::string& dataset, const std::string& name);

/// All of a dataset of floats or doubles that Hdf5Image wrote, as doubles, (rows, cols) row-major.
/// Errors  kInput unless it is contiguous, of that shape and type, and not larger than the file
std::vector<double> hdf5_values(const Hdf5File& file, const std::string& name, std::int64_t rows, std::int64_t cols,
                                ElementType stored);

}  // namespace tallsketch
