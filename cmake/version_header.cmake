# build/<preset>/generated/tallsketch_version.h: what --version and the report say about this build.
# The commit is looked up at every build; the header is rewritten only when it changed, so only the few files that
# include it are compiled again. Users: #include "tallsketch_version.h", target tallsketch_version.

set(tallsketch_generated "${PROJECT_BINARY_DIR}/generated")
find_package(Git QUIET)

# Everything but the commit is known now.
set(kVersion "${PROJECT_VERSION}")
set(kBuildType "${CMAKE_BUILD_TYPE}")
if(TALLSKETCH_SANITIZE)
  string(APPEND kBuildType ", sanitizers ${TALLSKETCH_SANITIZE}")
endif()
set(kCompiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
set(kCudaVersion "${tallsketch_cuda_version}")
set(kHdf5Version "${HDF5_VERSION}")
if(TALLSKETCH_HDF5_PARALLEL)
  set(kHdf5Flavour "parallel")
else()
  set(kHdf5Flavour "serial")
endif()
set(kMpiLibrary "${tallsketch_mpi_library}")
set(TALLSKETCH_GIT_COMMIT "@TALLSKETCH_GIT_COMMIT@")  # left for the second step
configure_file(cmake/tallsketch_version.h.in "${tallsketch_generated}/tallsketch_version.h.step1" @ONLY)

add_custom_target(tallsketch_version_header
  COMMAND "${CMAKE_COMMAND}"
    "-DTEMPLATE=${tallsketch_generated}/tallsketch_version.h.step1"
    "-DHEADER=${tallsketch_generated}/tallsketch_version.h"
    "-DGIT=${GIT_EXECUTABLE}"
    "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}"
    -P "${PROJECT_SOURCE_DIR}/cmake/write_version_header.cmake"
  BYPRODUCTS "${tallsketch_generated}/tallsketch_version.h"
  COMMENT "Looking up the commit for tallsketch_version.h"
  VERBATIM)

add_library(tallsketch_version INTERFACE)
target_include_directories(tallsketch_version INTERFACE "${tallsketch_generated}")
add_dependencies(tallsketch_version tallsketch_version_header)
