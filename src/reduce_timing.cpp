#include "src/reduce_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/communicator.h"
#include "src/sketch_timing.h"
#include "src/word_hash.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kPeriod = 17;  // of the integers -8 ... 8

double integer_of(std::int64_t element, int rank) {
  return static_cast<double>((7 * element + 3 * static_cast<std::int64_t>(rank)) % kPeriod - kPeriod / 2);
}

std::vector<double> made_up(std::int64_t elements, const std::function<double(std::int64_t)>& value) {
  std::vector<double> numbers(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) numbers[static_cast<std::size_t>(i)] = value(i);
  return numbers;
}

/// Whether the sums over ranks of integer_of are right.
bool are_exact(const std::vector<double>& sums, int ranks) {
  std::vector<double> expected(kPeriod, 0.0);
  for (std::int64_t i = 0; i < kPeriod; ++i) {
    for (int rank = 0; rank < ranks; ++rank) expected[static_cast<std::size_t>(i)] += integer_of(i, rank);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != expected[i % kPeriod]) return false;
  }
  return true;
}

/// Of all bits, as a number that MPI can compare.
std::int64_t fingerprint(const std::vector<double>& numbers) {
  WordHash hash;
  for (const double number : numbers) hash.add(number);
  return static_cast<std::int64_t>(hash.value() >> 1);
}

bool on_all(const Communicator& comm, bool mine) { return comm.min(mine ? 1 : 0) == 1; }

}  // namespace

std::int64_t ReduceCase::bytes() const {
  switch (precision) {
    case SketchPrecision::kFp16:
    case SketchPrecision::kBf16: return d * (2 * n + 4 * r);
    case SketchPrecision::kFp32: return 4 * elements();
    case SketchPrecision::kFp64: return 8 * elements();
  }
  return 0;
}

ReduceTiming time_reduce(const ReduceCase& timed, int repeats, const SummedBuffer& buffer, const Communicator& comm) {
  ReduceTiming timing;
  comm.together(
      [&] { buffer.set(made_up(timed.elements(), [&](std::int64_t i) { return integer_of(i, comm.rank()); })); });
  buffer.sum();
  comm.together([&] { timing.exact = are_exact(buffer.get(), comm.size()); });
  timing.exact = on_all(comm, timing.exact);

  // Numbers of all sizes below 1, with rounding in every sum: another order of ranks would give other bits.
  comm.together([&] {
    buffer.set(made_up(timed.elements(), [&](std::int64_t i) {
      const double phase = 0.618034 * static_cast<double>(i % 1048583) + 0.414214 * comm.rank();
      return phase - std::floor(phase) - 0.5;
    }));
    buffer.save();
  });
  timing.repeatable = true;
  std::int64_t first = 0;
  std::vector<double> seconds;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    comm.together([&] { buffer.restore(); });  // and a barrier
    const auto start = std::chrono::steady_clock::now();
    buffer.sum();
    const std::chrono::nanoseconds mine = std::chrono::steady_clock::now() - start;
    const std::int64_t slowest = comm.max(mine.count());
    if (repeat > 0) seconds.push_back(1e-9 * static_cast<double>(slowest));
    std::int64_t bits = 0;
    comm.together([&] { bits = fingerprint(buffer.get()); });
    if (repeat == 0) first = bits;
    const std::int64_t least = comm.min(bits), most = comm.max(bits);  // both, whatever they are: they are collective
    timing.repeatable = timing.repeatable && least == first && most == first;
  }
  timing.repeatable = on_all(comm, timing.repeatable);
  timing.median = median(seconds);
  timing.least = *std::min_element(seconds.begin(), seconds.end());
  return timing;
}

double bus_bandwidth(std::int64_t bytes, int ranks, double seconds) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds;
}

}  // namespace tallsketch
