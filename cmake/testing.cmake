# How a test is declared. Included by tests/CMakeLists.txt.
#
#   tallsketch_unit_test(unit.topic FILES... [LABELS l...] [TIMEOUT s] [PROCESSORS p])
#   tallsketch_mpi_test(mpi.topic RANKS 1 2 3 4 FILES... [LABELS l...] [TIMEOUT s])       -> mpi.topic.np1 ... np4
#   tallsketch_cuda_test(cuda.topic FILES... [RANKS 1 2] [LABELS l...] [TIMEOUT s])       rank = GPU; skipped without
#   tallsketch_script_test(cli.topic SCRIPT [ARGUMENTS...] [LABELS l...] [TIMEOUT s] [PROCESSORS p])
#
# The word FILES may be left out. The first part of the name is a label too. A program or script that ends with 77 is
# shown as skipped. Scripts find the build in TALLSKETCH (the program), TALLSKETCH_SOURCE_DIR, TALLSKETCH_BUILD_DIR,
# TALLSKETCH_CUDA (ON or OFF), TALLSKETCH_HDF5_PARALLEL (1 or 0), MPIEXEC, CMAKE, and run in a folder of their own.

set(TALLSKETCH_PYTHON /usr/bin/python3 CACHE FILEPATH "Python with numpy and h5py for the script tests (not a virtual one)")
set(tallsketch_skip_code 77)

# mpirun: as root, more ranks than cores, no binding (two ranks would share one core), yielding while waiting, and
# without the single-copy mechanism that containers forbid. As variables, so that scripts that call mpirun have them
# too; MPICH ignores them. OMPI_ is Open MPI's (4 and 5), PRTE_ the launcher's of Open MPI 5.
set(tallsketch_test_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
  OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
  OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1)
# A finding of a sanitizer has a code that no documented exit of the program has, whatever a test expects.
set(tallsketch_finding 99)
# halt_on_error is the default of AddressSanitizer, and what -fno-sanitize-recover makes of UBSan's findings.
if(TALLSKETCH_SANITIZE MATCHES "address")
  list(APPEND tallsketch_test_environment
    # Leaks are not looked for: LeakSanitizer itself crashes ("Tracer caught signal 11") at the end of 2 of the 28 programs, which
    # ones changing from build to build, and no test can rely on it. mpi.repeated_solves counts what 200 solves leave behind.
    "ASAN_OPTIONS=fast_unwind_on_malloc=0:protect_shadow_gap=0:allocator_may_return_null=1:exitcode=${tallsketch_finding}:detect_leaks=0"
    "UBSAN_OPTIONS=print_stacktrace=1:exitcode=${tallsketch_finding}"
    "LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/lsan.supp:print_suppressions=0:exitcode=${tallsketch_finding}")
endif()
# libgomp's barriers are not instrumented: teams of one thread (OMP_NUM_THREADS above) need none, and leave the program's own
# threads, which are what the suite is about.
if(TALLSKETCH_SANITIZE MATCHES "thread")
  list(APPEND tallsketch_test_environment
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1:exitcode=${tallsketch_finding}")
endif()
# Sanitizers slow everything down; limits are written for Release.
set(tallsketch_timeout_factor 1)
if(TALLSKETCH_SANITIZE)
  set(tallsketch_timeout_factor 5)
endif()

# mpirun's own time limit ends all ranks and says so; ctest's comes 10 s later.
set(tallsketch_mpirun_limit "")
if(MPI_C_LIBRARY_VERSION_STRING MATCHES "Open MPI")
  set(tallsketch_mpirun_limit --timeout)
endif()

# Catch2's main, compiled once (Catch2 2.x: 10 s).
add_library(tallsketch_test_main OBJECT support/mpi_main.cpp)
target_link_libraries(tallsketch_test_main PUBLIC tallsketch_options MPI::MPI_C Catch2::Catch2)
if(TALLSKETCH_SANITIZE)
  target_compile_options(tallsketch_test_main PRIVATE -O0)  # Catch2 itself: over 20 s of a core with -O1
endif()

# What a program of tests needs, compiled once: nothing, or a device.
add_library(tallsketch_requirement_none OBJECT support/requirement_none.cpp)
target_link_libraries(tallsketch_requirement_none PUBLIC tallsketch_options)

# A program of tests; requirement is a source file, or the objects of one.
function(tallsketch_test_program target requirement)
  add_executable(${target} ${ARGN} ${requirement} $<TARGET_OBJECTS:tallsketch_test_main>)
  target_link_libraries(${target} PRIVATE
    tallsketch_core tallsketch_test_support tallsketch_sanitizer_support MPI::MPI_C LAPACKE::LAPACKE Catch2::Catch2)
endfunction()

function(tallsketch_test_properties name processors timeout labels)
  string(REGEX MATCH "^[a-z]+" folder ${name})
  set(label_list ${folder} ${labels})
  list(REMOVE_DUPLICATES label_list)
  math(EXPR limit "${timeout} * ${tallsketch_timeout_factor}")
  set_tests_properties(${name} PROPERTIES
    PROCESSORS ${processors} TIMEOUT ${limit} LABELS "${label_list}"
    SKIP_RETURN_CODE ${tallsketch_skip_code} ENVIRONMENT "${tallsketch_test_environment};${ARGN}")
endfunction()

# Splits "FILES... [LABELS ...] [TIMEOUT s] [PROCESSORS p] [RANKS 1 2]" into test_FILES, test_LABELS, ...
macro(tallsketch_parse_test)
  cmake_parse_arguments(test "" "TIMEOUT;PROCESSORS" "RANKS;FILES;LABELS" ${ARGN})
  list(PREPEND test_FILES ${test_UNPARSED_ARGUMENTS})
  foreach(word IN LISTS test_RANKS)  # "RANKS 1 2 3 4 a.cpp": the files may follow the numbers
    if(NOT word MATCHES "^[0-9]+$")
      list(APPEND test_FILES ${word})
    endif()
  endforeach()
  list(FILTER test_RANKS INCLUDE REGEX "^[0-9]+$")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  if(NOT test_PROCESSORS)
    set(test_PROCESSORS 1)
  endif()
  string(REPLACE "." "_" test_TARGET "test_${name}")
endmacro()

function(tallsketch_unit_test name)
  tallsketch_parse_test(${ARGN})
  tallsketch_test_program(${test_TARGET} $<TARGET_OBJECTS:tallsketch_requirement_none> ${test_FILES})
  add_test(NAME ${name} COMMAND ${test_TARGET})
  tallsketch_test_properties(${name} ${test_PROCESSORS} ${test_TIMEOUT} "${test_LABELS}")
endfunction()

# name.np<ranks> under mpirun
function(tallsketch_add_mpi_run name target ranks timeout labels)
  set(limit "")
  if(tallsketch_mpirun_limit)
    math(EXPR limit "${timeout} * ${tallsketch_timeout_factor}")
    set(limit ${tallsketch_mpirun_limit} ${limit})
  endif()
  math(EXPR ctest_limit "${timeout} + 10")
  add_test(NAME ${name}.np${ranks}
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${limit} $<TARGET_FILE:${target}>)
  tallsketch_test_properties(${name}.np${ranks} ${ranks} ${ctest_limit} "${labels}" ${ARGN})
endfunction()

function(tallsketch_mpi_test name)
  tallsketch_parse_test(${ARGN})
  tallsketch_test_program(${test_TARGET} $<TARGET_OBJECTS:tallsketch_requirement_none> ${test_FILES})
  foreach(ranks IN LISTS test_RANKS)
    tallsketch_add_mpi_run(${name} ${test_TARGET} ${ranks} ${test_TIMEOUT} "mpi;${test_LABELS}")
  endforeach()
endfunction()

function(tallsketch_cuda_test name)
  tallsketch_parse_test(${ARGN})
  if(TALLSKETCH_WITH_CUDA)
    tallsketch_test_program(${test_TARGET} support/requirement_device.cpp ${test_FILES})
  endif()
  set(runs ${test_RANKS})
  if(NOT runs)
    set(runs 0)  # without mpirun
  endif()
  foreach(ranks IN LISTS runs)
    if(ranks GREATER 0)
      set(run ${name}.np${ranks})
    else()
      set(run ${name})
    endif()
    if(NOT TALLSKETCH_WITH_CUDA)
      add_test(NAME ${run}
        COMMAND sh -c "echo 'skipped: this build has no CUDA backend'; exit ${tallsketch_skip_code}")
      tallsketch_test_properties(${run} 1 10 "cuda;${test_LABELS}")
    elseif(ranks GREATER 0)
      tallsketch_add_mpi_run(${name} ${test_TARGET} ${ranks} ${test_TIMEOUT} "cuda;${test_LABELS}"
        TALLSKETCH_TEST_DEVICES=${ranks})
      set_tests_properties(${run} PROPERTIES RESOURCE_LOCK gpus)
    else()
      add_test(NAME ${run} COMMAND ${test_TARGET})
      tallsketch_test_properties(${run} ${test_PROCESSORS} ${test_TIMEOUT} "cuda;${test_LABELS}"
        TALLSKETCH_TEST_DEVICES=1)
      set_tests_properties(${run} PROPERTIES RESOURCE_LOCK gpus)
    endif()
  endforeach()
endfunction()

function(tallsketch_script_test name script)
  tallsketch_parse_test(${ARGN})
  if(script MATCHES "\\.py$")
    set(interpreter "${TALLSKETCH_PYTHON}")
  else()
    set(interpreter bash)
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/run/${name}")
  file(MAKE_DIRECTORY "${folder}")
  add_test(NAME ${name} COMMAND ${interpreter} "${CMAKE_CURRENT_SOURCE_DIR}/${script}" ${test_FILES}
    WORKING_DIRECTORY "${folder}")
  set(cuda OFF)
  if(TALLSKETCH_WITH_CUDA)
    set(cuda ON)
  endif()
  tallsketch_test_properties(${name} ${test_PROCESSORS} ${test_TIMEOUT} "${test_LABELS}"
    TALLSKETCH=$<TARGET_FILE:tallsketch>
    TALLSKETCH_SOURCE_DIR=${PROJECT_SOURCE_DIR} TALLSKETCH_BUILD_DIR=${PROJECT_BINARY_DIR}
    TALLSKETCH_CUDA=${cuda} TALLSKETCH_HDF5_PARALLEL=${TALLSKETCH_HDF5_PARALLEL}
    MPIEXEC=${MPIEXEC_EXECUTABLE} CMAKE=${CMAKE_COMMAND} "CMAKE_GENERATOR=${CMAKE_GENERATOR}" PYTHONDONTWRITEBYTECODE=1)
endfunction()

# The tests that CI runs with sanitizers too: label and target <suite>_suite, which builds just what these need.
function(tallsketch_sanitizer_suite suite)
  add_custom_target(${suite}_suite)
  foreach(name IN LISTS ARGN)
    set_property(TEST ${name} APPEND PROPERTY LABELS ${suite}_suite)
    string(REGEX REPLACE "\\.np[0-9]+$" "" target "test_${name}")
    string(REPLACE "." "_" target "${target}")
    if(NOT TARGET ${target})
      set(target tallsketch)  # a script's
    endif()
    add_dependencies(${suite}_suite ${target})
  endforeach()
endfunction()
