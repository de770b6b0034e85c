// What `bench sketch` and `bench passes` measure: a SketchCase or a shape in, times out, and the functions of the two
// machines. Called through Backend::time_sketch and time_pass by drivers/bench_*.cpp; cases: src/sketch_grid.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/sketch_spec.h"
#include "kernels/views.h"
#include "src/options.h"

namespace tallsketch {

/// A made-up problem: A (m, n) of a type, b (m, r) in FP32.
struct TimedShape {
  std::int64_t m = 0, n = 0, r = 0;
  ElementType type = ElementType::kFloat32;
  std::int64_t bytes_of_a() const { return m * n * element_size(type); }
};

/// One case of the grid. kernel = kGaussian: of the spec only d and seed count; flashblockrow: d, kappa, block_nnz, seed.
struct SketchCase {
  TimedShape shape;
  BenchFamily family = BenchFamily::kSparseStack;
  SketchSpec spec;
  BenchKernel kernel = BenchKernel::kAuto;
};

/// Seconds, medians over the repeats of one run. The floor is a read-only pass over the same A by the same hardware; b, where
/// there is one, counts in the sketch and not in the floor.
struct SketchTiming {
  double floor = 0;
  double complete = 0;                      // map + clearing + application
  std::optional<double> map, clear, apply;  // where they can be told apart
  const char* kernel = "host";              // what auto became
  std::optional<double> preprocess;         // spmm, part of map: cuSPARSE's look at S
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The refinement pass, A^T (b - A x) and ||b - A x||^2, clearing included.
struct PassTiming {
  double floor = 0;  // seconds, medians
  double pass = 0;
  const char* kernel = "host";
};

/// In host memory, `threads` threads.
SketchTiming time_host_sketch(const SketchSpec& spec, const TimedShape& shape, int repeats, int threads);
/// A dense Gaussian S of d rows by BLAS, made anew each time (map), 4096 columns at a time: the yardstick of studies.
/// Errors: kUsage for another type than FP32
SketchTiming time_host_gaussian(std::int64_t d, std::uint64_t seed, const TimedShape& shape, int repeats, int threads);
PassTiming time_host_pass(const TimedShape& shape, int repeats, int threads);

/// In memory of the current device. Errors: kUsage where the kernel does not do the case.
SketchTiming time_cuda_sketch(const SketchCase& timed, int repeats);
PassTiming time_cuda_pass(const TimedShape& shape, int repeats);

}  // namespace tallsketch
