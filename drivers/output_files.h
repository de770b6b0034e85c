// Names of output files, and what would make them unwritable, found before hours of work and not after.
// Used by the solve and sketch drivers.
#pragma once

#include <string>
#include <vector>

#include "src/options.h"

namespace tallsketch {

/// The files that the input options name.
std::vector<std::string> input_files(const InputOptions& input);

/// Errors  kUsage where an output is an input, or both outputs are one file; kOutput where one cannot be written
/// name    of the option that names the output
/// report  empty or "-": no file
void check_outputs(const std::vector<std::string>& inputs, const std::string& name, const std::string& output,
                   const std::string& report);

}  // namespace tallsketch
