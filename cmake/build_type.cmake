# Build type, compiler cache, rpath: what holds for every target.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

# The processor's own instructions are chosen at run time (TALLSKETCH_VECTOR_CLONES), so there is no -march=native here:
# a binary built on a login node must run on every compute node.

find_program(TALLSKETCH_CCACHE ccache)
mark_as_advanced(TALLSKETCH_CCACHE)
if(TALLSKETCH_CCACHE)
  foreach(language C CXX CUDA)
    if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${TALLSKETCH_CCACHE}")
    endif()
  endforeach()
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # libraries from modules are found without LD_LIBRARY_PATH
