# LAPACKE, the C interface of LAPACK, over OpenBLAS or whatever BLA_VENDOR names.
# Makes LAPACKE::LAPACKE; sets LAPACKE_FOUND, LAPACKE_INCLUDE_DIR and, if not found, LAPACKE_REASON.
# Three arrangements are tried, and a call of LAPACKE_dgeqrf must link:
#   1. the BLAS library holds LAPACKE itself (OpenBLAS of most clusters' modules);
#   2. liblapacke.a beside it (Debian: then libopenblas alone is needed at run time, no reference LAPACK);
#   3. a shared liblapacke, with LAPACK if need be.
# Hints: BLA_VENDOR; LAPACKE_ROOT, OPENBLAS_ROOT, OPENBLAS_HOME, OPENBLAS_DIR (variables or environment).
include(CheckCSourceCompiles)
include(FindPackageHandleStandardArgs)

set(lapacke_hints ${LAPACKE_ROOT} ${OPENBLAS_ROOT} $ENV{LAPACKE_ROOT} $ENV{OPENBLAS_ROOT} $ENV{OPENBLAS_HOME}
  $ENV{OPENBLAS_DIR})
set(CMAKE_PREFIX_PATH_saved ${CMAKE_PREFIX_PATH})
list(APPEND CMAKE_PREFIX_PATH ${lapacke_hints})  # FindBLAS has no hints of its own

if(DEFINED BLA_VENDOR OR DEFINED ENV{BLA_VENDOR})
  find_package(BLAS QUIET)
else()
  set(BLA_VENDOR OpenBLAS)
  find_package(BLAS QUIET)
  unset(BLA_VENDOR)
  if(NOT BLAS_FOUND)
    find_package(BLAS QUIET)
  endif()
endif()
find_path(LAPACKE_INCLUDE_DIR lapacke.h PATH_SUFFIXES include include/openblas include/lapacke openblas lapacke)
find_library(LAPACKE_STATIC_LIBRARY liblapacke.a PATH_SUFFIXES lib lib64)
find_library(LAPACKE_SHARED_LIBRARY lapacke PATH_SUFFIXES lib lib64)
mark_as_advanced(LAPACKE_INCLUDE_DIR LAPACKE_STATIC_LIBRARY LAPACKE_SHARED_LIBRARY)
set(CMAKE_PREFIX_PATH ${CMAKE_PREFIX_PATH_saved})

set(LAPACKE_REASON "")
if(NOT BLAS_FOUND)
  set(LAPACKE_REASON "no BLAS")
elseif(NOT LAPACKE_INCLUDE_DIR)
  set(LAPACKE_REASON "no lapacke.h")
else()
  function(lapacke_links result libraries)
    set(CMAKE_REQUIRED_QUIET ON)
    set(CMAKE_REQUIRED_INCLUDES ${LAPACKE_INCLUDE_DIR})
    set(CMAKE_REQUIRED_LIBRARIES ${libraries} m)
    check_c_source_compiles("
#include <lapacke.h>
int main(void) { double a = 1, tau; return (int)LAPACKE_dgeqrf(LAPACK_COL_MAJOR, 1, 1, &a, 1, &tau); }
" ${result})
  endfunction()
  lapacke_links(LAPACKE_IN_BLAS "${BLAS_LIBRARIES}")
  if(LAPACKE_IN_BLAS)
    set(LAPACKE_LIBRARIES ${BLAS_LIBRARIES})
  endif()
  if(NOT LAPACKE_LIBRARIES AND LAPACKE_STATIC_LIBRARY)
    lapacke_links(LAPACKE_STATIC_LINKS "${LAPACKE_STATIC_LIBRARY};${BLAS_LIBRARIES}")
    if(LAPACKE_STATIC_LINKS)
      set(LAPACKE_LIBRARIES ${LAPACKE_STATIC_LIBRARY} ${BLAS_LIBRARIES})
    endif()
  endif()
  if(NOT LAPACKE_LIBRARIES AND LAPACKE_SHARED_LIBRARY)
    find_package(LAPACK QUIET)
    set(lapacke_shared ${LAPACKE_SHARED_LIBRARY} ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES})
    lapacke_links(LAPACKE_SHARED_LINKS "${lapacke_shared}")
    if(LAPACKE_SHARED_LINKS)
      set(LAPACKE_LIBRARIES ${lapacke_shared})
    endif()
  endif()
  if(NOT LAPACKE_LIBRARIES)
    set(LAPACKE_REASON "no library with LAPACKE_dgeqrf")
  endif()
endif()

find_package_handle_standard_args(LAPACKE REQUIRED_VARS LAPACKE_LIBRARIES LAPACKE_INCLUDE_DIR)
if(LAPACKE_FOUND AND NOT TARGET LAPACKE::LAPACKE)
  add_library(LAPACKE::LAPACKE INTERFACE IMPORTED)
  target_include_directories(LAPACKE::LAPACKE INTERFACE "${LAPACKE_INCLUDE_DIR}")
  target_link_libraries(LAPACKE::LAPACKE INTERFACE ${LAPACKE_LIBRARIES})
  list(GET LAPACKE_LIBRARIES 0 lapacke_first)
  list(GET BLAS_LIBRARIES 0 lapacke_blas)
  message(STATUS "tallsketch: LAPACKE from ${lapacke_first}, BLAS from ${lapacke_blas}")
endif()
