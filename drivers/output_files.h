// Names of output files, and what would make them unwritable, found before hours of work and not after.
// Used by the solve and sketch drivers.
#pragma once

#include <string>
#include <vector>

namespace tallsketch {

/// A file that a run writes, and the option that names it; empty or "-": none.
struct OutputFile {
  std::string option, path;
};

/// Errors  kUsage where an output is an input, or two outputs are one file; kOutput where one cannot be written
void check_outputs(const std::vector<std::string>& inputs, std::vector<OutputFile> outputs);

}  // namespace tallsketch
