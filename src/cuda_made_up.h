// A made-up problem in device memory, for benchmarks that need no file. Called by cuda_backend.
#pragma once

#include <vector>

#include "src/backend.h"
#include "src/cuda_handles.h"
#include "src/cuda_rows.h"

namespace tallsketch {

/// Fills rows with A and b as MadeUpProblem says; the same rows whoever holds them, up to rounding. A float32 A is made in
/// FP32.
/// rows       out, device: their range and type are the views'
/// b_squares  in/out (r): the squares of these rows' b are added
/// Errors     kUsage for a type of 16 bits
/// Cost       2 rows n^2 operations in the type, on the host about 10 n^3
void make_up_rows(const MadeUpProblem& problem, const ProblemShape& shape, const RowsOnDevice& rows,
                  cublasHandle_t blas, const CudaStream& stream, std::vector<double>& b_squares);

}  // namespace tallsketch
