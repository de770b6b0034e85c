// What a test program needs beyond a processor. Called by mpi_main.cpp before any test runs; the build links
// requirement_none.cpp or requirement_device.cpp.
#pragma once

#include <string>

namespace tallsketch::test {

/// Exit code by which CTest knows a skipped test (SKIP_RETURN_CODE).
inline constexpr int kSkipped = 77;

/// Why the tests of this program cannot run here; empty if they can.
std::string missing_requirement();

}  // namespace tallsketch::test
