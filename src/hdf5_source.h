// Hdf5Source: [A | b] from one HDF5 file or several row shards. Made by the drivers through open_hdf5_source.
#pragma once

#include <memory>

#include "src/options.h"
#include "src/row_source.h"

namespace tallsketch {

class Communicator;

/// Opens every file, checks types and shapes. Collective. Errors: kInput; kUsage when A is wide (m < n).
std::unique_ptr<RowSource> open_hdf5_source(const InputOptions& options, const Communicator& comm);

}  // namespace tallsketch
