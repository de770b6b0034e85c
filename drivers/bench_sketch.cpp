// tallsketch bench sketch: the sketch over a grid of shapes, each beside the read-only pass of the same run.
// One JSON line a run on standard output; a table for people, and what was skipped, on standard error. On several ranks each
// sketches rows of its own, as many as one rank would, and the slowest counts: weak scaling of the sketch without the all-reduce.

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/sketch_grid.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

using Json = nlohmann::ordered_json;

Json milliseconds(const std::optional<double>& seconds) {
  if (!seconds) return nullptr;
  return 1e3 * *seconds;
}

bool is_gaussian(const SketchCase& timed) { return timed.kernel == BenchKernel::kGaussian; }
bool is_baseline(const SketchCase& timed) { return is_gaussian(timed) || timed.kernel == BenchKernel::kSpmm; }
const char* family_word(const SketchCase& timed) { return is_gaussian(timed) ? "gaussian" : to_word(timed.family); }

/// The sketch in the words of the options; null where it has no such parameter.
Json sketch_json(const SketchCase& timed) {
  const SketchSpec& spec = timed.spec;
  const bool dense = is_gaussian(timed);
  const bool blocks = !dense && timed.family != BenchFamily::kSparseStack;
  const bool sampled = !dense && timed.family == BenchFamily::kFlashBlockRow;
  Json json = {{"family", family_word(timed)},
               {"hash", dense || sampled ? Json(nullptr) : Json(to_word(spec.hash))},
               {"precision", to_word(spec.precision)},
               {"rounding", to_word(spec.rounding)},
               {"d", spec.d},
               {"zeta", dense || sampled ? Json(nullptr) : Json(spec.zeta)}};
  if (blocks) {
    json["kappa"] = spec.kappa;
    json["block_nnz"] = spec.block_nnz;
    json["block_rows"] = spec.block_rows;
    if (!sampled) json["input_blocks"] = to_word(spec.input_blocks);
  }
  return json;
}

double floor_gb_per_s(const SketchCase& timed, const SketchTiming& timing) {
  return static_cast<double>(timed.shape.bytes_of_a()) / timing.floor / 1e9;
}

void print_json(const Backend& backend, int ranks, const SketchCase& timed, const SketchTiming& timing) {
  Json line = {{"bench", "sketch"},          {"backend", backend.name()},
               {"device", backend.device()}, {"ranks", ranks},
               {"commit", version_git()},    {"kernel", timing.kernel},
               {"m", timed.shape.m},         {"n", timed.shape.n},
               {"r", timed.shape.r},         {"dtype", to_word(timed.shape.type)}};
  line.update(sketch_json(timed));
  line["floor_ms"] = 1e3 * timing.floor;
  line["floor_gb_per_s"] = floor_gb_per_s(timed, timing);
  line[is_baseline(timed) ? "build_ms" : "map_ms"] = milliseconds(timing.map);
  if (timing.preprocess) line["preprocess_ms"] = milliseconds(timing.preprocess);  // part of build_ms
  line["clear_ms"] = milliseconds(timing.clear);
  line["apply_ms"] = milliseconds(timing.apply);
  line["complete_ms"] = 1e3 * timing.complete;
  line["floors"] = timing.complete / timing.floor;
  if (is_baseline(timed) && timing.apply) line["floors_without_build"] = *timing.apply / timing.floor;
  std::fputs((line.dump() + "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// The nonzeros of S: "4", or kappa x s of blocks of B_r, with c for contiguous input blocks.
std::string nonzeros(const SketchCase& timed) {
  const SketchSpec& spec = timed.spec;
  if (is_gaussian(timed)) return "dense";
  if (timed.family == BenchFamily::kSparseStack) return std::to_string(spec.zeta);
  return fmt::format("{}x{}/{}{}", spec.kappa, spec.block_nnz, spec.block_rows,
                     spec.input_blocks == InputBlocks::kContiguous ? "c" : "");
}

constexpr const char* kRow =
    "{:>10} {:>6} {:>6} {:>8} {:>13} {:>9} {:>11} {:>5} {:>8} {:>9} {:>8} {:>8} {:>9} {:>7}{}\n";

void print_header(const Backend& backend) {
  std::fputs(fmt::format(kRow, "m", "n", "d", "dtype", "family", "nonzeros", "hash", "prec", "kernel", "GB/s", "map ms",
                         "apply ms", "all ms", "floors", "   on " + backend.device())
                 .c_str(),
             stderr);
}

void print_row(const SketchCase& timed, const SketchTiming& timing) {
  const auto part = [](const std::optional<double>& seconds) {
    return seconds ? fmt::format("{:.3f}", 1e3 * *seconds) : std::string("-");
  };
  const bool hashed = !is_gaussian(timed) && timed.family != BenchFamily::kFlashBlockRow;
  std::fputs(
      fmt::format(kRow, timed.shape.m, timed.shape.n, timed.spec.d, to_word(timed.shape.type), family_word(timed),
                  nonzeros(timed), hashed ? to_word(timed.spec.hash) : "-", to_word(timed.spec.precision),
                  timing.kernel, fmt::format("{:.1f}", floor_gb_per_s(timed, timing)), part(timing.map),
                  part(timing.apply), part(timing.complete), fmt::format("{:.2f}", timing.complete / timing.floor), "")
          .c_str(),
      stderr);
}

/// Times the case on all ranks at once; the slowest counts in each part. Collective.
SketchTiming time_on_all(Backend& backend, const SketchCase& timed, int repeats, const Communicator& comm) {
  SketchTiming timing;
  comm.together([&] { timing = backend.time_sketch(timed, repeats); });
  const auto slowest = [&](double& seconds) { comm.max(&seconds, 1); };
  slowest(timing.floor);
  slowest(timing.complete);
  for (auto* part : {&timing.map, &timing.clear, &timing.apply, &timing.preprocess}) {
    if (*part) slowest(**part);  // the same parts on every rank
  }
  return timing;
}

/// Combinations that do not exist: told of one by one, and an error where nothing else is left.
class Skipped {
 public:
  explicit Skipped(bool quiet) : quiet_(quiet) {}
  void add(const std::string& line) {
    if (first_.empty()) first_ = line;
    if (!quiet_) std::fputs(("skipped: " + line + "\n").c_str(), stderr);
  }
  const std::string& first() const { return first_; }

 private:
  bool quiet_;
  std::string first_;
};

}  // namespace

int run_bench_sketch(const BenchSketchOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, comm);
  watchdog.enter("devices");
  PhaseTimer timer;
  const auto backend = make_backend(options.run, comm, timer);
  const bool tells = comm.is_root() && !options.run.quiet;
  Skipped skipped(!tells);
  const auto cases = make_sketch_grid(options, [&](const std::string& line) { skipped.add(line); });
  if (tells && !cases.empty()) print_header(*backend);
  bool measured = false;
  for (const SketchCase& timed : cases) {
    constexpr double kSlowest = 0.05e9;  // bytes/s of a repeat, filling included
    watchdog.enter("bench sketch", static_cast<double>(timed.shape.bytes_of_a()) * (options.repeats + 2) / kSlowest);
    try {
      const SketchTiming timing = time_on_all(*backend, timed, options.repeats, comm);
      if (comm.is_root()) print_json(*backend, comm.size(), timed, timing);
      if (tells) print_row(timed, timing);
      measured = true;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kUsage) throw;
      skipped.add(describe(timed) + ": " + e.what());
    }
  }
  comm.together([&] { require(measured, ErrorKind::kUsage, "nothing to measure: " + skipped.first()); });
  return 0;
}

}  // namespace tallsketch
