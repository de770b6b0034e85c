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

/// A file with contiguous /A (rows, cols), /b (rows) of stored_b_type and /x_true (cols), without the data of A and b: all
/// ranks write their rows with plain positioned writes, whatever HDF5 was built with.
struct ProblemFile {
  struct Piece {
    std::int64_t offset;
    std::vector<std::byte> bytes;
  };
  std::vector<Piece> pieces;  // all that is not zero or data of A and b
  std::int64_t size = 0;      // of the file, in bytes
  ProblemOffsets offsets;
};

/// Made by HDF5 in memory: where its own writes to a disk fail, HDF5 1.10 crashes at the end of the process. Errors: kOutput
ProblemFile make_problem_file(std::int64_t rows, std::int64_t cols, ElementType a_type,
                              const std::vector<double>& x_true, const std::string& provenance);

}  // namespace tallsketch
