// What `bench reduce` measures: the all-reduce of a sketch, as a solve does it, and whether its sums are right and the same
// every time. The method is here; the backends bring the sums. Called through Backend::time_reduce by drivers/bench_reduce.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/sketch_spec.h"

namespace tallsketch {

class Communicator;

/// A sketch of [A | b], (d, n + r). fp16: A's columns in halves, b's in FP32, as --reduce fp16; fp64: as of FP64 sketches.
struct ReduceCase {
  std::int64_t d = 0, n = 0, r = 1;
  SketchPrecision precision = SketchPrecision::kFp32;

  std::int64_t elements() const { return d * (n + r); }
  /// That a rank gives to the sum.
  std::int64_t bytes() const;
};

struct ReduceTiming {
  double median = 0, least = 0;  // seconds, on the slowest rank
  bool exact = false;            // sums of small integers are what they are on paper, on all ranks
  bool repeatable = false;       // unstructured numbers: the same bits in every run, and on every rank
};

/// A backend's buffer of the case's elements, (d, n + r) row-major.
struct SummedBuffer {
  std::function<void(const std::vector<double>&)> set;  // rounded to the type of the sketch
  std::function<void()> save, restore;                  // a copy of its own, near the buffer
  std::function<void()> sum;                            // collective, in place; returns when it is done
  std::function<std::vector<double>()> get;
};

/// Collective. One more run than repeats comes first, and does not count: connections are made, buffers registered.
ReduceTiming time_reduce(const ReduceCase& timed, int repeats, const SummedBuffer& buffer, const Communicator& comm);

/// Bytes a second of each rank's link that the time stands for, as nccl-tests defines bus bandwidth: 2 (P - 1) / P of the
/// bytes pass every link. 0 on one rank.
double bus_bandwidth(std::int64_t bytes, int ranks, double seconds);

}  // namespace tallsketch
