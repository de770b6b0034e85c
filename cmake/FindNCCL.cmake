# NCCL; call it after FindCUDAToolkit. Also finds the Python-wheel layout, which has only libnccl.so.2.
# Makes NCCL::NCCL; sets NCCL_FOUND, NCCL_VERSION. Hints: NCCL_ROOT, NCCL_HOME (variables or environment).
include(FindPackageHandleStandardArgs)

set(nccl_hints ${NCCL_ROOT} ${NCCL_HOME} $ENV{NCCL_ROOT} $ENV{NCCL_HOME})
# A named place wins over the toolkit's copy and the system's.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nccl_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${nccl_hints} PATH_SUFFIXES lib lib64
  NO_DEFAULT_PATH)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" nccl_defines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  list(TRANSFORM nccl_defines REPLACE "^#define NCCL_[A-Z]+ +([0-9]+).*" "\\1")
  list(JOIN nccl_defines "." NCCL_VERSION)  # nccl.h has them in the order major, minor, patch
endif()

find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::NCCL)
  add_library(NCCL::NCCL UNKNOWN IMPORTED)
  set_target_properties(NCCL::NCCL PROPERTIES
    IMPORTED_LOCATION "${NCCL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
