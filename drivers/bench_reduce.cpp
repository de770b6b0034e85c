// tallsketch bench reduce: the all-reduce of sketches over all ranks, size by size. One JSON line a case on standard output, a
// table on standard error. Bandwidths are those of nccl-tests: bytes that a rank gives, and what passes each rank's link.

#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/host_memory.h"
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
                  fmt::format("   {} rank{} on {} node{}, {} by {}", comm.size(), plural(comm.size()), comm.nodes(),
                              plural(comm.nodes()), backend.place().device, library))
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

/// Host memory of a rank at most: the numbers in FP64, those before rounding or those compared, beside two copies of the sketch.
double host_bytes(const ReduceCase& timed) {
  const double size = timed.precision == SketchPrecision::kFp64 ? 8 : 4;
  return (8 + 2 * size) * static_cast<double>(timed.elements());
}

std::string cure(const ReduceCase& timed) {
  return fmt::format(
      "--sketch-rows {} with --cols {} takes about {} of host memory on a rank: use smaller ones, or fewer ranks a "
      "node",
      timed.d, timed.n, bytes_text(static_cast<std::int64_t>(host_bytes(timed))));
}

/// Before memory is touched: Linux gives more than there is, and ends whoever uses it.
/// Errors  kMemory
void require_memory(const ReduceCase& timed, const Communicator& comm) {
  const MemoryShare share = host_memory_share(comm.node_size(), 1);
  if (share.bytes == 0) return;
  require(host_bytes(timed) <= static_cast<double>(usable(share.bytes)), ErrorKind::kMemory,
          fmt::format("{} are {} for a rank, and {}", bytes_text(share.bytes), describe(share.bound), cure(timed)));
}

/// Backend::time_reduce; where memory ends all the same, the message names what to change. Collective.
ReduceTiming timed_reduce(Backend& backend, const ReduceCase& timed, int repeats, const Communicator& comm) {
  std::optional<ReduceTiming> timing;
  try {
    timing = backend.time_reduce(timed, repeats);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kMemory || !e.agreed()) throw;
  }
  comm.together([&] { require(timing.has_value(), ErrorKind::kMemory, "out of memory; " + cure(timed)); });
  return *timing;
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
  if (tells && comm.size() == 1) {
    std::fputs(
        "note: on one rank nothing is sent or summed; start it as a solve on several: mpirun -n 2 tallsketch bench "
        "reduce\n",
        stderr);
  }
  bool right = true;
  for (const ReduceCase& timed : cases_of(options)) {
    comm.together([&] { require_memory(timed, comm); });
    constexpr double kSlowest = 0.02e9;  // bytes/s of a repeat, with the copies that are compared
    watchdog.enter("bench reduce", static_cast<double>(timed.bytes()) * (options.repeats + 3) / kSlowest);
    const ReduceTiming timing = timed_reduce(*backend, timed, options.repeats, comm);
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
