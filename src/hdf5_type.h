// What HDF5 types tallsketch can read, and which StoredType they are. Called by hdf5_dataset.
#pragma once

#include <string>

#include "kernels/encoding.h"
#include "src/hdf5_file.h"

namespace tallsketch {

struct Hdf5Type {
  StoredType type = StoredType::kFloat32;
  bool big_endian = false;
  std::string warning;  // empty: none
};

/// The elements of an open dataset: IEEE floats of 16, 32 and 64 bits, bfloat16, integers of 8 to 64 bits, booleans (the
/// enumeration of h5py, the bit field of Julia). uint16 and int16 are bfloat16 where the dataset has a text attribute
/// dtype = "bfloat16", refused with another one that does not name them, else integers (uint16 with a warning).
/// where   "dataset /A of 'x.h5'", for messages
/// Errors  kInput: everything else
Hdf5Type hdf5_type_of(const Hdf5Handle& dataset, const std::string& where);

}  // namespace tallsketch
