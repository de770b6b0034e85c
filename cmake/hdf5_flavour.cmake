# Is this HDF5 a parallel one? Asked of the library itself, because FindHDF5's answer is missing for some installations
# (config packages before 1.14, wrappers of modules). Called by dependencies.cmake once MPI and HDF5 are found.
# Makes tallsketch_hdf5: HDF5 with the definition TALLSKETCH_HDF5_PARALLEL=0 or 1.
include(CheckCSourceCompiles)

if(TARGET hdf5::hdf5)  # made by FindHDF5 except for some config packages
  set(tallsketch_hdf5_libraries hdf5::hdf5)
else()
  set(tallsketch_hdf5_libraries ${HDF5_C_LIBRARIES})
endif()

# The answer is remembered for one set of libraries only.
set(tallsketch_hdf5_key "${HDF5_C_LIBRARIES};${HDF5_C_INCLUDE_DIRS};${MPI_C_LIBRARIES}")
if(NOT "${tallsketch_hdf5_key}" STREQUAL "${TALLSKETCH_HDF5_CHECKED}")
  unset(TALLSKETCH_HDF5_COMPILES CACHE)
  unset(TALLSKETCH_HDF5_MPIO_LINKS CACHE)
  set(TALLSKETCH_HDF5_CHECKED "${tallsketch_hdf5_key}" CACHE INTERNAL "libraries that the two checks saw")
endif()
set(CMAKE_REQUIRED_QUIET ON)
set(CMAKE_REQUIRED_LIBRARIES ${tallsketch_hdf5_libraries} MPI::MPI_C)
set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS})
check_c_source_compiles("
#include <hdf5.h>
int main(void) { return H5open(); }
" TALLSKETCH_HDF5_COMPILES)
check_c_source_compiles("
#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif
int main(void) { return H5Pset_fapl_mpio(H5P_DEFAULT, MPI_COMM_WORLD, MPI_INFO_NULL); }
" TALLSKETCH_HDF5_MPIO_LINKS)
unset(CMAKE_REQUIRED_QUIET)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_INCLUDES)

list(GET HDF5_C_LIBRARIES 0 tallsketch_hdf5_first)
if(NOT TALLSKETCH_HDF5_COMPILES)
  message(FATAL_ERROR "HDF5 ${HDF5_VERSION} was found (${tallsketch_hdf5_first}) but a program that calls H5open does "
    "not build with it. Install libhdf5-openmpi-dev, or set HDF5_ROOT to an HDF5 built with this compiler and MPI "
    "(docs/install.md, troubleshooting).")
endif()
if(TALLSKETCH_HDF5_MPIO_LINKS)
  set(TALLSKETCH_HDF5_PARALLEL 1)
  message(STATUS "tallsketch: HDF5 ${HDF5_VERSION}, parallel (${tallsketch_hdf5_first})")
else()
  set(TALLSKETCH_HDF5_PARALLEL 0)
  message(STATUS "tallsketch: HDF5 ${HDF5_VERSION}, SERIAL (${tallsketch_hdf5_first}): accepted, every rank reads its "
    "own rows; the collective mode --io mpio is not available. For parallel HDF5 install libhdf5-openmpi-dev or set "
    "HDF5_ROOT.")
endif()

add_library(tallsketch_hdf5 INTERFACE)
target_link_libraries(tallsketch_hdf5 INTERFACE ${tallsketch_hdf5_libraries} MPI::MPI_C)
target_include_directories(tallsketch_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
# The 1.10 interface in every version: in 1.12 and later plain names such as H5O_info_t mean other types.
target_compile_definitions(tallsketch_hdf5 INTERFACE
  TALLSKETCH_HDF5_PARALLEL=${TALLSKETCH_HDF5_PARALLEL} H5_USE_110_API)
