// What this binary is: version, commit, compiler, libraries. For --version, the report and the log's first line.
#pragma once

#include <string>
#include <vector>

namespace tallsketch {

std::string version_number();
/// Commit that was built, "-dirty" with local changes.
std::string version_git();
/// One line: build type, compiler, CUDA.
std::string build_text();
/// Several lines: everything above and the libraries, each with its flavour.
std::string version_text();

struct Library {
  std::string name, version;
};
/// MPI and HDF5, as they are linked at this run.
std::vector<Library> common_libraries();

}  // namespace tallsketch
