# tallsketch_options: what every target of the project is compiled with. tallsketch_sanitizer_support: linked into
# every executable. Both do nothing to the libraries that others wrote (those are SYSTEM includes).

add_library(tallsketch_options INTERFACE)
target_include_directories(tallsketch_options INTERFACE "${PROJECT_SOURCE_DIR}")  # #include "kernels/sketch_rule.h"
target_compile_features(tallsketch_options INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)

target_compile_options(tallsketch_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion>"
  # Not -Wpedantic for nvcc: the code it generates has GNU line directives.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wconversion>")
if(TALLSKETCH_WERROR)
  target_compile_options(tallsketch_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()

# ---- sanitizers ------------------------------------------------------------------------------------------------
add_library(tallsketch_sanitizer_support INTERFACE)
if(TALLSKETCH_SANITIZE)
  if(NOT TALLSKETCH_SANITIZE MATCHES "^(address|undefined|address,undefined|undefined,address|thread)$")
    message(FATAL_ERROR "TALLSKETCH_SANITIZE=${TALLSKETCH_SANITIZE}: allowed are address,undefined and thread")
  endif()
  set(sanitizer_flags -fsanitize=${TALLSKETCH_SANITIZE} -fno-omit-frame-pointer -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND sanitizer_flags -Wno-maybe-uninitialized)  # false alarms on instrumented standard headers
  endif()
  if(TALLSKETCH_SANITIZE MATCHES "undefined")
    list(APPEND sanitizer_flags -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(tallsketch_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitizer_flags}>")
  target_link_options(tallsketch_options INTERFACE ${sanitizer_flags})
  if(TALLSKETCH_SANITIZE MATCHES "address")
    # Plug-ins of Open MPI stay mapped, so that leak reports and tests/support/lsan.supp can name them.
    target_sources(tallsketch_sanitizer_support INTERFACE "${PROJECT_SOURCE_DIR}/tests/support/keep_plugins_mapped.cpp")
    target_link_options(tallsketch_sanitizer_support INTERFACE -rdynamic)
  endif()
endif()
