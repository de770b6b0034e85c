// Solution: what a solve gives to its user. Made by solver.cpp, written by hdf5_writer.
#pragma once

#include <vector>

namespace tallsketch {

/// On rank 0; empty on the others.
struct Solution {
  std::vector<double> x;                // (n, r) row-major FP64
  std::vector<double> standard_errors;  // the same, where they were asked for
};

}  // namespace tallsketch
