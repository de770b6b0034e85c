// The header of a .npy file (numpy.save), versions 1 to 3: pure parsing, strict and bounded. Called by npy_file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/encoding.h"

namespace tallsketch {

struct NpyHeader {
  StoredType type = StoredType::kFloat32;
  bool big_endian = false;
  bool fortran = false;
  std::vector<std::int64_t> shape;
  std::int64_t data_offset = 0;  // in bytes from the start of the file
  /// Of the elements. Fits 63 bits: parse_npy_header saw to it.
  std::int64_t data_bytes() const;
};

/// Whether these are the first bytes of a .npy file.
bool is_npy(const std::string& head);

/// The header at the start of `bytes`, which may hold more. "V2" is what ml_dtypes' bfloat16 is saved as.
/// path    for messages
/// Limits  headers up to 64 KiB, which is what version 1 can say; those of arrays of numbers have about 128 bytes
/// Errors  kInput: no .npy, an unknown version, a header that is cut off, malformed, or of something else than an array of
///         numbers
NpyHeader parse_npy_header(const std::string& bytes, const std::string& path);

/// Bytes that parse_npy_header may need.
inline constexpr std::int64_t kMostNpyHeaderBytes = 65536 + 12;

}  // namespace tallsketch
