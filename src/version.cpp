#include "src/version.h"

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/hdf5_file.h"
#include "tallsketch_version.h"

namespace tallsketch {

std::string version_number() { return kVersion; }
std::string version_git() { return kGitCommit; }

std::string build_text() { return fmt::format("{}, {}, CUDA {}", kBuildType, kCompiler, kCudaVersion); }

std::string version_text() {
  const bool parallel = std::string(kHdf5Flavour) == "parallel";
  return fmt::format(
      "tallsketch {} (commit {})\n"
      "build:  {}, {}\n"
      "CUDA:   {}\n"
      "MPI:    {} (built with {})\n"
      "HDF5:   {}, {}{}",
      kVersion, kGitCommit, kBuildType, kCompiler, kCudaVersion, mpi_library_version(), kMpiLibrary, kHdf5Version,
      kHdf5Flavour, parallel ? "" : " (every rank reads its own rows without MPI-IO)");
}

std::vector<Library> common_libraries() { return {{"MPI", mpi_library_version()}, {"HDF5", hdf5_library_version()}}; }

}  // namespace tallsketch
