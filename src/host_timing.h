// How the host benchmarks take times: wall-clock seconds of a job beside a read-only pass over the same bytes of A.
// Called by host_sketch_timing and host_pass_timing.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/read_pass_host.h"
#include "src/host_buffer.h"
#include "src/sketch_timing.h"

namespace tallsketch {

/// A (m, n) row-major of its type, entries in [-1, 1) that only have to look unstructured.
HostBuffer made_up_matrix(const TimedShape& shape, int threads);

template <class F>
double seconds_of(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Medians, seconds.
struct BesideFloor {
  double floor = 0, job = 0;
};

/// Runs the job and the read pass in turn, so that both see the same neighbours; the first turn does not count.
/// a  in, A as made_up_matrix makes it
template <class F>
BesideFloor time_beside_read_pass(const HostBuffer& a, int repeats, int threads, F&& job) {
  const SlabView bytes{a.data(), a.bytes() / 4, 1, 1, ElementType::kFloat32, 0};  // read as floats, whatever the type
  std::vector<double> floors, jobs;
  volatile double sink = 0;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    const double floor = seconds_of([&] { sink = host::read_pass(bytes, threads); });
    const double own = seconds_of(job);
    if (repeat == 0) continue;  // first touch
    floors.push_back(floor);
    jobs.push_back(own);
  }
  return {median(floors), median(jobs)};
}

}  // namespace tallsketch
