// FileSource: [A | b] from HDF5 and .npy files, each one file or several row shards. Made by the drivers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/options.h"
#include "src/row_source.h"

namespace tallsketch {

class Communicator;

/// Opens every file, checks types and shapes. Collective.
/// progressed  called on rank 0 before each HDF5 file that its probe opens, while the other ranks wait: of many, it takes long
/// Errors  kInput; kUsage when A is wide (m < n), when options ask for what the files cannot give
std::unique_ptr<RowSource> open_file_source(const InputOptions& options, const Communicator& comm,
                                            const std::function<void()>& progressed = {});

/// Paths of all files that the options name, for A and b: what may not be overwritten.
std::vector<std::string> input_paths(const InputOptions& options);

}  // namespace tallsketch
