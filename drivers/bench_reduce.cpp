// tallsketch bench reduce: the all-reduce of sketches over all ranks, size by size. One JSON line a case on standard output, a
// table on standard error. Bandwidths are those of nccl-tests: bytes that a rank gives, and what passes each rank's link.

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// Precisions outermost, d innermost.
std::vector<ReduceCase> cases_of(const BenchReduceOptions& options) {
  std::vector<ReduceCase> cases;
  for (const SketchPrecision precision : options.precision) {
    for (const std::int64_t n : options.cols) {
      for (const std::int64_t d : options.sketch_rows) cases.push_back({d, n, options.rhs, precision});
    }
  }
  return cases;
}

void print_json(const Backend& backend, const std::string& library, const Communicator& comm, const ReduceCase& timed,
                const ReduceTiming& timing) {
  const double gb = 1e-9 * static_cast<double>(timed.bytes());
  const nlohmann::ordered_json line = {
      {"bench", "reduce"},
      {"backend", backend.name()},
      {"device", backend.device()},
      {"library", library},
      {"commit", version_git()},
      {"ranks", comm.size()},
      {"nodes", comm.nodes()},
      {"d", timed.d},
      {"n", timed.n},
      {"r", timed.r},
      {"precision", to_word(timed.precision)},
      {"bytes", timed.bytes()},
      {"ms", 1e3 * timing.median},
      {"least_ms", 1e3 * timing.least},
      {"gb_per_s", gb / timing.median},
      {"bus_gb_per_s", 1e-9 * bus_bandwidth(timed.bytes(), comm.size(), timing.median)},
      {"exact", timing.exact},
      {"repeatable", timing.repeatable}};
  std::fputs((line.dump() + "\n").c_str(), stdout);
  std::fflush(stdout);
}

constexpr const char* kRow = "{:>7} {:>6} {:>5} {:>12} {:>10} {:>10} {:>9} {:>9} {:>6} {:>10}{}\n";

void print_header(const Backend& backend, const std::string& library, const Communicator& comm) {
  std::fputs(
      fmt::format(kRow, "d", "n + r", "prec", "bytes", "ms", "least ms", "GB/s", "bus GB/s", "exact", "repeatable",
                  fmt::format("   {} ranks on {} node{}, {} by {}", comm.size(), comm.nodes(), plural(comm.nodes()),
                              backend.place().device, library))
          .c_str(),
      stderr);
}

void print_row(const Communicator& comm, const ReduceCase& timed, const ReduceTiming& timing) {
  const auto number = [](double value, int digits) { return fmt::format("{:.{}f}", value, digits); };
  const auto word = [](bool value) { return value ? "yes" : "NO"; };
  std::fputs(fmt::format(kRow, timed.d, timed.n + timed.r, to_word(timed.precision), timed.bytes(),
                         number(1e3 * timing.median, 4), number(1e3 * timing.least, 4),
                         number(1e-9 * static_cast<double>(timed.bytes()) / timing.median, 2),
                         number(1e-9 * bus_bandwidth(timed.bytes(), comm.size(), timing.median), 2), word(timing.exact),
                         word(timing.repeatable), "")
                 .c_str(),
             stderr);
}

}  // namespace

int run_bench_reduce(const BenchReduceOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, comm);
  watchdog.enter("devices");
  PhaseTimer timer;
  const auto backend = make_backend(options.run, comm, timer);
  const std::string library =
      backend->name() == std::string("cuda") && options.run.comm == ReduceChoice::kNccl ? "nccl" : "mpi";
  const bool tells = comm.is_root() && !options.run.quiet;
  if (tells) print_header(*backend, library, comm);
  bool right = true;
  for (const ReduceCase& timed : cases_of(options)) {
    constexpr double kSlowest = 0.02e9;  // bytes/s of a repeat, with the copies that are compared
    watchdog.enter("bench reduce", static_cast<double>(timed.bytes()) * (options.repeats + 3) / kSlowest);
    const ReduceTiming timing = backend->time_reduce(timed, options.repeats);
    if (comm.is_root()) print_json(*backend, library, comm, timed, timing);
    if (tells) print_row(comm, timed, timing);
    right = right && timing.exact && timing.repeatable;
  }
  comm.together([&] {
    require(right, ErrorKind::kCommunication,
            "a sum over ranks is wrong, or has other bits from run to run: see 'exact' and 'repeatable' above; the "
            "library of the all-reduce, or a GPU or link, is faulty (--comm mpi tells which)");
  });
  return 0;
}

}  // namespace tallsketch
