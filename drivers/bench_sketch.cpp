// tallsketch bench sketch: the sketch over a grid of shapes, each beside the read-only pass of the same run.
// One JSON line a run on standard output, and a table for people on standard error.

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/sketch_identity.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

nlohmann::ordered_json milliseconds(const std::optional<double>& seconds) {
  if (!seconds) return nullptr;
  return 1e3 * *seconds;
}

void print_result(const Backend& backend, const SketchSpec& spec, const TimedShape& shape, const SketchTiming& timing,
                  bool quiet) {
  const nlohmann::ordered_json line = {{"bench", "sketch"},
                                       {"backend", backend.name()},
                                       {"device", backend.device()},
                                       {"commit", version_git()},
                                       {"family", to_word(spec.family)},
                                       {"hash", to_word(spec.hash)},
                                       {"precision", to_word(spec.precision)},
                                       {"rounding", to_word(spec.rounding)},
                                       {"kernel", timing.kernel},
                                       {"dtype", to_word(shape.type)},
                                       {"m", shape.m},
                                       {"n", shape.n},
                                       {"r", shape.r},
                                       {"d", spec.d},
                                       {"zeta", spec.zeta},
                                       {"floor_ms", 1e3 * timing.floor},
                                       {"floor_gb_per_s", static_cast<double>(shape.bytes_of_a()) / timing.floor / 1e9},
                                       {"map_ms", milliseconds(timing.map)},
                                       {"clear_ms", milliseconds(timing.clear)},
                                       {"apply_ms", milliseconds(timing.apply)},
                                       {"complete_ms", 1e3 * timing.complete},
                                       {"floors", timing.complete / timing.floor}};
  std::fputs((line.dump() + "\n").c_str(), stdout);
  std::fflush(stdout);
  if (quiet) return;
  std::fputs(fmt::format("{:>11} {:>6} {:>6} {:>4} {:>11} {:>5} {:>7} {:>8} {:>10.2f} {:>12.3f} {:>7.2f}\n", shape.m,
                         shape.n, spec.d, spec.zeta, to_word(spec.hash), to_word(spec.precision), timing.kernel,
                         to_word(shape.type), static_cast<double>(shape.bytes_of_a()) / timing.floor / 1e9,
                         1e3 * timing.complete, timing.complete / timing.floor)
                 .c_str(),
             stderr);
}

}  // namespace

namespace {

/// One shape of the grid.
struct Case {
  std::int64_t m = 0, n = 0;
  SketchOptions sketch;
  KernelChoice kernel = KernelChoice::kAuto;
  ElementType dtype = ElementType::kFloat32;
};

std::vector<Case> all_cases(const BenchSketchOptions& options) {
  std::vector<Case> cases;
  for (const std::int64_t n : options.cols) {
    for (const double oversample : options.oversample) {
      for (const int zeta : options.zeta) {
        for (const SketchHash hash : options.hash) {
          for (const SketchPrecision precision : options.precision) {
            for (const KernelChoice kernel : options.kernel) {
              for (const ElementType dtype : options.dtype) {
                for (const SketchRounding rounding : options.rounding) {
                  if (!is_half(precision) && rounding != SketchRounding::kNearest) continue;  // nothing to round
                  Case c{static_cast<std::int64_t>(options.bytes) / (element_size(dtype) * n), n, {}, kernel, dtype};
                  c.sketch.oversample = oversample;
                  c.sketch.zeta = zeta;
                  c.sketch.hash = hash;
                  c.sketch.precision = precision;
                  c.sketch.rounding = rounding;
                  cases.push_back(c);
                }
              }
            }
          }
        }
      }
    }
  }
  return cases;
}

}  // namespace

int run_bench_sketch(const BenchSketchOptions& options, const Communicator& comm) {
  const std::vector<Case> cases = all_cases(options);
  comm.together([&] {
    require(!cases.empty(), ErrorKind::kUsage,
            "--rounding without nearest leaves nothing for fp32 to do; add --precision fp16 or bf16");
    require(comm.size() == 1, ErrorKind::kUsage,
            fmt::format("bench sketch measures one rank, but {} run; start it without mpirun", comm.size()));
  });
  Watchdog watchdog(options.run.timeout, fmt::format("rank {} on {}", comm.rank(), comm.host()));
  PhaseTimer timer;
  const auto backend = make_backend(options.run, comm, timer);
  if (!options.run.quiet) {
    std::fputs(
        fmt::format("{:>11} {:>6} {:>6} {:>4} {:>11} {:>5} {:>7} {:>8} {:>10} {:>12} {:>7}   on {}\n", "m", "n", "d",
                    "zeta", "hash", "prec", "kernel", "dtype", "floor GB/s", "complete ms", "floors", backend->device())
            .c_str(),
        stderr);
  }
  for (const Case& c : cases) {
    constexpr double kSlowest = 0.05e9;  // bytes/s of a repeat, filling included
    watchdog.enter("bench sketch", static_cast<double>(options.bytes) * (options.repeats + 2) / kSlowest);
    const SketchSpec spec = make_sketch_spec({c.m, c.n, 0, c.dtype}, c.sketch);
    require(c.m >= spec.batch_rows, ErrorKind::kUsage,
            fmt::format("--bytes {} with n = {} leaves {} rows; raise --bytes", options.bytes, c.n, c.m));
    const TimedShape shape{c.m, c.n, options.rhs, c.dtype};
    print_result(*backend, spec, shape, backend->time_sketch(spec, shape, options.repeats, c.kernel),
                 options.run.quiet);
  }
  return 0;
}

}  // namespace tallsketch
