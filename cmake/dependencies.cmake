# Everything that is needed besides CUDA. All that is missing is collected and named once, with its Debian packages.
# Afterwards these targets exist: MPI::MPI_C (with the C++ bindings switched off), tallsketch_hdf5, LAPACKE::LAPACKE,
# OpenMP::OpenMP_CXX, Threads::Threads, ZLIB::ZLIB, CLI11::CLI11, nlohmann_json::nlohmann_json, fmt::fmt, Random123::Random123 and,
# with tests, Catch2::Catch2.

set(tallsketch_missing "")  # "what (Debian package)" lines
set(tallsketch_packages "")

function(tallsketch_report_missing what package)
  list(APPEND tallsketch_missing "${what}: ${package}")
  list(APPEND tallsketch_packages ${package})
  set(tallsketch_missing "${tallsketch_missing}" PARENT_SCOPE)
  set(tallsketch_packages "${tallsketch_packages}" PARENT_SCOPE)
endfunction()

# A library by its own CMake package or, failing that, by a header alone (for header-only copies on clusters:
# CMAKE_PREFIX_PATH or <name>_ROOT names the folder whose include/ holds the header).
macro(tallsketch_find_header_library name target header package)
  find_package(${name} QUIET CONFIG)
  if(NOT TARGET ${target} AND NOT CMAKE_DISABLE_FIND_PACKAGE_${name})
    find_path(${name}_INCLUDE_DIR ${header} HINTS ${${name}_ROOT} ENV ${name}_ROOT PATH_SUFFIXES include)
    mark_as_advanced(${name}_INCLUDE_DIR)
    if(${name}_INCLUDE_DIR)
      add_library(${target} INTERFACE IMPORTED)
      target_include_directories(${target} INTERFACE "${${name}_INCLUDE_DIR}")
    endif()
  endif()
  if(NOT TARGET ${target})
    tallsketch_report_missing("${name} (${header})" ${package})
  endif()
endmacro()

find_package(Threads REQUIRED)
find_package(OpenMP COMPONENTS CXX)
if(NOT TARGET OpenMP::OpenMP_CXX)
  message(FATAL_ERROR "tallsketch needs a C++ compiler with OpenMP; ${CMAKE_CXX_COMPILER} has none. "
    "With g++ it is always there; with clang++ install libomp-dev.")
endif()

# ---- MPI 3.1: the C interface only ------------------------------------------------------------------------------
set(MPI_CXX_SKIP_MPICXX ON)
set(MPI_DETERMINE_LIBRARY_VERSION ON)  # for --version, and to know which mpirun options the tests may use
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
  tallsketch_report_missing("MPI (mpicc, mpi.h)" libopenmpi-dev)
elseif(MPI_C_VERSION VERSION_LESS 3.1)
  message(FATAL_ERROR "tallsketch needs MPI 3.1 or newer; found MPI ${MPI_C_VERSION} (${MPI_C_COMPILER}). "
    "Load a newer Open MPI (2 or later) or MPICH (3.2 or later), or set MPI_HOME.")
else()
  target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
  if(MPI_C_LIBRARY_VERSION_STRING)
    string(REGEX MATCH "^[^,\n\t]*" tallsketch_mpi_library "${MPI_C_LIBRARY_VERSION_STRING}")
    string(STRIP "${tallsketch_mpi_library}" tallsketch_mpi_library)
    if(MPI_C_LIBRARY_VERSION_STRING MATCHES "MPICH Version:[ \t]*([0-9.a-z]+)")
      set(tallsketch_mpi_library "MPICH ${CMAKE_MATCH_1}")
    endif()
  else()
    set(tallsketch_mpi_library "MPI ${MPI_C_VERSION}")
  endif()
  message(STATUS "tallsketch: MPI is ${tallsketch_mpi_library} (${MPI_C_COMPILER})")
endif()

# ---- HDF5: parallel preferred, serial accepted ------------------------------------------------------------------
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 QUIET COMPONENTS C)
if(NOT HDF5_FOUND)
  tallsketch_report_missing("HDF5 (hdf5.h)" libhdf5-openmpi-dev)
elseif(HDF5_VERSION VERSION_LESS 1.10)
  message(FATAL_ERROR "tallsketch needs HDF5 1.10 or newer; found ${HDF5_VERSION}. Set HDF5_ROOT to a newer one.")
elseif(MPI_C_FOUND)
  include(cmake/hdf5_flavour.cmake)  # sets TALLSKETCH_HDF5_PARALLEL, makes tallsketch_hdf5
endif()

# ---- zlib: HDF5's own need, for gzip chunks that are held against their size -------------------------------------
find_package(ZLIB QUIET)
if(NOT ZLIB_FOUND)
  tallsketch_report_missing("zlib (zlib.h)" zlib1g-dev)
endif()

# ---- the other libraries ----------------------------------------------------------------------------------------
find_package(LAPACKE QUIET)  # cmake/FindLAPACKE.cmake
if(NOT LAPACKE_FOUND)
  if(LAPACKE_REASON MATCHES "BLAS")
    tallsketch_report_missing("OpenBLAS" libopenblas-dev)
  endif()
  if(NOT LAPACKE_INCLUDE_DIR OR NOT LAPACKE_REASON MATCHES "BLAS")
    tallsketch_report_missing("LAPACKE (lapacke.h and a library with LAPACKE_dgeqrf)" liblapacke-dev)
  endif()
endif()
tallsketch_find_header_library(CLI11 CLI11::CLI11 CLI/CLI.hpp libcli11-dev)
tallsketch_find_header_library(nlohmann_json nlohmann_json::nlohmann_json nlohmann/json.hpp nlohmann-json3-dev)
tallsketch_find_header_library(fmt fmt::fmt fmt/format.h libfmt-dev)
if(TARGET fmt::fmt AND fmt_INCLUDE_DIR AND NOT fmt_FOUND)
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
endif()
tallsketch_find_header_library(Random123 Random123::Random123 Random123/philox.h librandom123-dev)
if(TALLSKETCH_TESTS)
  find_package(Catch2 QUIET CONFIG)  # 2.13 (Debian 12) or 3.x: tests/support/catch.h serves both
  if(NOT TARGET Catch2::Catch2)
    tallsketch_report_missing("Catch2 (or configure with -DTALLSKETCH_TESTS=OFF)" catch2)
  endif()
endif()

if(tallsketch_missing)
  list(JOIN tallsketch_missing "\n  " lines)
  list(REMOVE_DUPLICATES tallsketch_packages)
  list(JOIN tallsketch_packages " " packages)
  message(FATAL_ERROR "tallsketch: missing, each with its Debian/Ubuntu package:\n  ${lines}\n"
    "Install them with\n  apt-get install --no-install-recommends ${packages}\n"
    "or, without root, load your cluster's modules and set CMAKE_PREFIX_PATH: docs/install.md.")
endif()
