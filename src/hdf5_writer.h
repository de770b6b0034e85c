// Writing HDF5: small results as a whole image in memory, large problems as a skeleton whose data ranks write in place.
// Called by solver (x) and the generate driver. All bytes reach the disk through atomic_file, so that a full disk is an
// error with the system's reason and never a plausible file (HDF5's own closes return success on a full disk).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/views.h"
#include "src/solution.h"

namespace tallsketch {

/// Image of a file with /x, float64 (n) or (n, r), a text attribute `provenance` on it, and /standard_errors of the same
/// shape where the solution has them. Errors: kOutput.
std::vector<std::byte> solution_image(const Solution& solution, std::int64_t n, std::int64_t r,
                                      const std::string& provenance);

/// Where the raw data of a problem file go, in bytes from its start.
struct ProblemOffsets {
  std::int64_t a = 0;
  std::int64_t b = 0;
};

/// Creates, at `path`, a file with contiguous /A (rows, cols), /b (rows) of stored_b_type and /x_true (cols), and returns
/// where the raw data of A and b go, so that all ranks can write their rows with plain positioned writes, whatever HDF5
/// was built with. path  an existing temporary file; it is replaced
ProblemOffsets create_problem_file(const std::string& path, std::int64_t rows, std::int64_t cols, ElementType a_type,
                                   const std::vector<double>& x_true, const std::string& provenance);

}  // namespace tallsketch
