// tallsketch bench passes: the refinement pass, A^T (b - A x) and ||b - A x||^2 from one read of A, over a grid of shapes,
// each beside the read-only pass of the same run. One JSON line a run on standard output; a table on standard error.

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

double floor_gb_per_s(const TimedShape& shape, const PassTiming& timing) {
  return static_cast<double>(shape.bytes_of_a()) / timing.floor / 1e9;
}

void print_json(const Backend& backend, const TimedShape& shape, const PassTiming& timing) {
  const nlohmann::ordered_json line = {{"bench", "passes"},
                                       {"backend", backend.name()},
                                       {"device", backend.device()},
                                       {"commit", version_git()},
                                       {"kernel", timing.kernel},
                                       {"m", shape.m},
                                       {"n", shape.n},
                                       {"r", shape.r},
                                       {"dtype", to_word(shape.type)},
                                       {"floor_ms", 1e3 * timing.floor},
                                       {"floor_gb_per_s", floor_gb_per_s(shape, timing)},
                                       {"pass_ms", 1e3 * timing.pass},
                                       {"floors", timing.pass / timing.floor}};
  std::fputs((line.dump() + "\n").c_str(), stdout);
  std::fflush(stdout);
}

constexpr const char* kRow = "{:>10} {:>6} {:>4} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}{}\n";

void print_header(const Backend& backend) {
  std::fputs(fmt::format(kRow, "m", "n", "r", "dtype", "kernel", "GB/s", "floor ms", "pass ms", "floors",
                         "   on " + backend.device())
                 .c_str(),
             stderr);
}

void print_row(const TimedShape& shape, const PassTiming& timing) {
  const auto number = [](double value) { return fmt::format("{:.3f}", value); };
  std::fputs(fmt::format(kRow, shape.m, shape.n, shape.r, to_word(shape.type), timing.kernel,
                         fmt::format("{:.1f}", floor_gb_per_s(shape, timing)), number(1e3 * timing.floor),
                         number(1e3 * timing.pass), fmt::format("{:.2f}", timing.pass / timing.floor), "")
                 .c_str(),
             stderr);
}

/// Types outermost, right-hand sides innermost.
std::vector<TimedShape> shapes_of(const BenchPassesOptions& options) {
  std::vector<TimedShape> shapes;
  for (const ElementType type : options.dtype) {
    for (const std::int64_t n : options.cols) {
      const std::int64_t m = static_cast<std::int64_t>(options.bytes) / (n * element_size(type));
      for (const std::int64_t r : options.rhs) shapes.push_back({std::max<std::int64_t>(1, m), n, r, type});
    }
  }
  return shapes;
}

}  // namespace

int run_bench_passes(const BenchPassesOptions& options, const Communicator& comm) {
  comm.together([&] {
    require(comm.size() == 1, ErrorKind::kUsage,
            fmt::format("bench passes measures one rank, but {} run; start it without mpirun", comm.size()));
  });
  Watchdog watchdog(options.run.timeout, comm);
  PhaseTimer timer;
  const auto backend = make_backend(options.run, comm, timer);
  bool header = options.run.quiet;
  for (const TimedShape& shape : shapes_of(options)) {
    constexpr double kSlowest = 0.05e9;  // bytes/s of a repeat, filling included
    watchdog.enter("bench passes", static_cast<double>(shape.bytes_of_a()) * (options.repeats + 2) / kSlowest);
    const PassTiming timing = backend->time_pass(shape, options.repeats);
    print_json(*backend, shape, timing);
    if (!header) print_header(*backend);
    header = true;
    if (!options.run.quiet) print_row(shape, timing);
  }
  return 0;
}

}  // namespace tallsketch
