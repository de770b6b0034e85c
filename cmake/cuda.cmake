# Decides on the CUDA backend and, if it is wanted and possible, enables the language.
# Sets TALLSKETCH_WITH_CUDA (TRUE or FALSE) and tallsketch_cuda_version ("13.0.88" or "none").
# Order matters: toolkit, libraries and architectures are checked before enable_language(), whose own error messages
# name neither a package nor a way out.

set(TALLSKETCH_WITH_CUDA FALSE)
set(tallsketch_cuda_version "none")
string(TOUPPER "${TALLSKETCH_CUDA}" tallsketch_cuda_wish)
if(NOT tallsketch_cuda_wish MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TALLSKETCH_CUDA=${TALLSKETCH_CUDA}: allowed are AUTO, ON and OFF")
endif()
if(tallsketch_cuda_wish STREQUAL "OFF")
  message(STATUS "tallsketch: CUDA backend: no (TALLSKETCH_CUDA=OFF)")
  return()
endif()

# nvcc: what the user names, then PATH, then the toolkit's usual place.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(TALLSKETCH_NVCC nvcc
    HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(TALLSKETCH_NVCC)
  if(TALLSKETCH_NVCC)
    set(CMAKE_CUDA_COMPILER "${TALLSKETCH_NVCC}")
  endif()
elseif(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "$ENV{CUDACXX}")
endif()

set(cuda_missing "")
set(cuda_top "")
if(CMAKE_CUDA_COMPILER)
  # Asked as CMake asks it: a working nvcc answers with its toolkit's folder, also through links and wrappers.
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" -v __cmake_determine_cuda OUTPUT_VARIABLE cuda_answer
    ERROR_VARIABLE cuda_answer RESULT_VARIABLE cuda_status)
  if(cuda_answer MATCHES "#\\$ TOP=([^\r\n]*)")
    get_filename_component(cuda_top "${CMAKE_MATCH_1}" ABSOLUTE)
  endif()
endif()
if(NOT cuda_top)
  list(APPEND cuda_missing
    "a CUDA compiler (a working nvcc on PATH, in CUDA_HOME or /usr/local/cuda, or set CMAKE_CUDA_COMPILER)")
else()
  if(NOT CUDAToolkit_ROOT)
    set(CUDAToolkit_ROOT "${cuda_top}")  # the libraries of the same toolkit
  endif()
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    list(APPEND cuda_missing "the CUDA runtime library of ${CMAKE_CUDA_COMPILER}")
  else()
    if(CUDAToolkit_VERSION VERSION_LESS 12.0)
      list(APPEND cuda_missing "CUDA 12.0 or newer, for C++20 (found ${CUDAToolkit_VERSION}: ${CMAKE_CUDA_COMPILER})")
    endif()
    foreach(library cublas cusolver cusparse)
      if(NOT TARGET CUDA::${library})
        list(APPEND cuda_missing "${library} (part of the CUDA toolkit, see CUDAToolkit_ROOT)")
      endif()
    endforeach()
    find_package(NCCL QUIET)
    if(NOT NCCL_FOUND)
      list(APPEND cuda_missing "NCCL (nccl.h and libnccl: NVIDIA's packages libnccl2 and libnccl-dev, or set NCCL_ROOT or NCCL_HOME)")
    endif()
  endif()
endif()

if(cuda_missing)
  if(tallsketch_cuda_wish STREQUAL "ON")
    list(JOIN cuda_missing "\n  " lines)
    message(FATAL_ERROR "TALLSKETCH_CUDA=ON, but these are missing:\n  ${lines}\n"
      "TALLSKETCH_CUDA=OFF builds the host backend alone; it needs no GPU.")
  endif()
  list(JOIN cuda_missing "; " lines)
  message(STATUS "tallsketch: CUDA backend: no (TALLSKETCH_CUDA=AUTO; not found: ${lines})")
  unset(CMAKE_CUDA_COMPILER)
  return()
endif()

# ---- architectures ---------------------------------------------------------------------------------------------
# The strip engine uses TMA and clusters (90a); scatter kernels serve 80 and, by the 90 PTX, what comes after Hopper.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}")
  else()
    set(CMAKE_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE STRING "CUDA architectures, as CMake writes them")
endif()

execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-arch
  OUTPUT_VARIABLE cuda_known RESULT_VARIABLE cuda_list_status ERROR_QUIET)
string(REGEX MATCHALL "[0-9]+" cuda_known "${cuda_known}")
if(cuda_list_status EQUAL 0 AND cuda_known)
  list(JOIN cuda_known ", " cuda_known_text)
  foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
    if(architecture STREQUAL "native")
      # CMake asks the driver for it, and takes an old default in silence when there is none.
      if(NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)
        message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES=native needs a GPU on the machine that configures, and none is "
          "visible here. Name the architecture instead: 80 (A100), 90a (H100, H200).")
      endif()
    elseif(architecture MATCHES "^([0-9]+)[a-z]?(-real|-virtual)?$")
      if(NOT CMAKE_MATCH_1 IN_LIST cuda_known)
        message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: this toolkit (CUDA ${CUDAToolkit_VERSION}) does not compile for "
          "architecture ${architecture}; it knows ${cuda_known_text}. Leave CMAKE_CUDA_ARCHITECTURES unset for the "
          "default 80-real;90a-real;90-virtual, or use an older toolkit for older GPUs (CUDA 12 is the last one for 70).")
      endif()
      if(CMAKE_MATCH_1 VERSION_LESS 70)
        message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES=${architecture}: tallsketch needs 70 (Volta) or newer")
      endif()
    elseif(NOT architecture MATCHES "^(all|all-major)$")
      message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: cannot read \"${architecture}\"; examples: 80-real, 90a-real, 90-virtual")
    endif()
  endforeach()
endif()

# ---- the language ----------------------------------------------------------------------------------------------
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # otherwise cudart_static and libcudart.so are both linked
enable_language(CUDA)
# CMake 3.25 does not know nvcc's C++20 of recent toolkits ("requires the language dialect CUDA20"): teach it.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

set(TALLSKETCH_WITH_CUDA TRUE)
set(tallsketch_cuda_version "${CMAKE_CUDA_COMPILER_VERSION}")
message(STATUS "tallsketch: CUDA backend: yes (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, NCCL ${NCCL_VERSION}, "
  "architectures ${CMAKE_CUDA_ARCHITECTURES})")
