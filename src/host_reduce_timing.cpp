#include "src/host_reduce_timing.h"

#include "src/communicator.h"
#include "src/half_reduce.h"

namespace tallsketch {

namespace {

template <class T>
ReduceTiming time_sums(const ReduceCase& timed, int repeats, const Communicator& comm) {
  std::vector<T> sketch, saved;
  SummedBuffer buffer;
  buffer.set = [&](const std::vector<double>& numbers) { sketch.assign(numbers.begin(), numbers.end()); };
  buffer.save = [&] { saved = sketch; };
  buffer.restore = [&] { sketch = saved; };
  buffer.sum = [&] {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (timed.precision == SketchPrecision::kFp16) {
        sum_in_halves(comm, sketch, timed.d, timed.n, timed.r);
        return;
      }
    }
    comm.sum(sketch.data(), static_cast<std::int64_t>(sketch.size()));
  };
  buffer.get = [&] { return std::vector<double>(sketch.begin(), sketch.end()); };
  return time_reduce(timed, repeats, buffer, comm);
}

}  // namespace

ReduceTiming time_host_reduce(const ReduceCase& timed, int repeats, const Communicator& comm) {
  return timed.precision == SketchPrecision::kFp64 ? time_sums<double>(timed, repeats, comm)
                                                   : time_sums<float>(timed, repeats, comm);
}

}  // namespace tallsketch
