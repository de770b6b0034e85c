# Run at build time (cmake -P) by version_header.cmake: fills in the commit.
# In: TEMPLATE, HEADER, GIT (may be empty), SOURCE_DIR.
set(TALLSKETCH_GIT_COMMIT "unknown")
if(GIT)
  # Tags come first ("v0.1.0-3-gabc1234"), a bare commit otherwise; "-dirty" when tracked files differ from it.
  # safe.directory: a checkout of another owner (containers) is read all the same. The repository must be this folder,
  # not one that happens to lie around an unpacked archive.
  execute_process(COMMAND "${GIT}" -c "safe.directory=${SOURCE_DIR}" rev-parse --show-prefix
    WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status ERROR_QUIET)
  if(status EQUAL 0 AND prefix STREQUAL "")
    execute_process(COMMAND "${GIT}" -c "safe.directory=${SOURCE_DIR}" describe --always --tags --dirty --abbrev=12
      WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE
      RESULT_VARIABLE status ERROR_QUIET)
    if(status EQUAL 0 AND described)
      set(TALLSKETCH_GIT_COMMIT "${described}")
    endif()
  endif()
endif()
configure_file("${TEMPLATE}" "${HEADER}" @ONLY)  # writes only when the content differs
