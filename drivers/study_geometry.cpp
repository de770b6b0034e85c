// tallsketch study geometry: how sketches distort orthonormal bases between low coherence and coordinate rows.
// One CSV line a case on standard output or in a file, and a table for people on standard error.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "drivers/study_csv.h"
#include "kernels/block_perm.h"
#include "src/backend.h"
#include "src/coherence_sweep.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/geometry_study.h"
#include "src/sketch_geometry.h"
#include "src/sketch_identity.h"
#include "src/spread.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// One line of the study.
struct Case {
  double coherence = 0;
  HeadRows head = HeadRows::kFirst;
  SketchOptions sketch;
};

/// The sketches of one family for a given oversampling, hash and precision: zeta, or kappa and kind of input blocks.
std::vector<SketchOptions> family_members(const StudyGeometryOptions& options, const SketchOptions& common) {
  std::vector<SketchOptions> members;
  SketchOptions member = common;
  if (common.family == SketchFamily::kSparseStack) {
    for (const int zeta : options.zeta) {
      member.zeta = zeta;
      members.push_back(member);
    }
    return members;
  }
  std::vector<std::optional<int>> kappas(options.kappa.begin(), options.kappa.end());
  if (kappas.empty()) kappas.emplace_back();
  member.block_nnz = options.block_nnz;
  member.block_rows = options.block_rows;
  for (const std::optional<int>& kappa : kappas) {
    for (const InputBlocks blocks : options.input_blocks) {
      member.kappa = kappa;
      member.input_blocks = blocks;
      members.push_back(member);
    }
  }
  return members;
}

std::vector<SketchOptions> all_sketches(const StudyGeometryOptions& options) {
  std::vector<SketchOptions> sketches;
  SketchOptions common;
  common.seed = options.seed;
  common.scaling = options.scaling;
  for (const double oversample : options.oversample) {
    for (const SketchFamily family : options.family) {
      for (const SketchHash hash : options.hash) {
        for (const SketchPrecision precision : options.precision) {
          common.oversample = oversample;
          common.family = family;
          common.hash = hash;
          common.precision = precision;
          const std::vector<SketchOptions> members = family_members(options, common);
          sketches.insert(sketches.end(), members.begin(), members.end());
        }
      }
    }
  }
  return sketches;
}

/// Bases outermost: a basis is mixed once for all its sketches.
std::vector<Case> all_cases(const StudyGeometryOptions& options) {
  std::vector<Case> cases;
  for (const HeadRows head : options.head) {
    for (const double coherence : options.coherence) {
      for (const SketchOptions& sketch : all_sketches(options)) cases.push_back({coherence, head, sketch});
    }
  }
  return cases;
}

const char* const kCsvHeader =
    "backend,commit,m,n,head,coherence,largest_leverage,family,hash,precision,d,zeta,kappa,block_rows,input_blocks,"
    "first_seed,seeds,distortion_median,distortion_least,distortion_largest,length_distortion_median,sigma_min_median,"
    "sigma_min_least,rank_losses,gaussian_distortion_median,block_coherence,neighbourhood_coherence_median,"
    "neighbourhood_coherence_least,neighbourhood_coherence_largest\n";

std::string csv_line(const Backend& backend, const ProblemShape& shape, const Case& c, const GeometryResult& result,
                     const Spread& gaussian) {
  const SketchSpec& spec = result.spec;
  const Spread distortion = spread_of(result.distortion), smallest = spread_of(result.smallest);
  const bool block_perm = spec.family == SketchFamily::kBlockPerm;
  const std::string blocks =
      block_perm ? fmt::format("{},{},{}", spec.kappa, spec.block_rows, to_word(spec.input_blocks)) : ",,";
  std::string coherences = ",,,";
  if (block_perm) {
    const Spread neighbourhood = spread_of(result.neighbourhood_coherence);
    coherences = fmt::format("{:.6g},{:.6g},{:.6g},{:.6g}", *result.block_coherence, neighbourhood.median,
                             neighbourhood.least, neighbourhood.largest);
  }
  return fmt::format(
      "{},{},{},{},{},{},{:.6g},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{:.6g},{}\n",
      backend.name(), version_git(), shape.m, shape.n, to_word(c.head), c.coherence, result.largest_leverage,
      to_word(spec.family), to_word(spec.hash), to_word(spec.precision), spec.d, spec.zeta, blocks, spec.seed,
      result.distortion.size(), distortion.median, distortion.least, distortion.largest,
      spread_of(result.length_distortion).median, smallest.median, smallest.least, result.rank_losses, gaussian.median,
      coherences);
}

const char* const kTableHeader =
    "  head coherence      sketch input blocks        hash  prec      d zeta kappa  "
    "distortion median [least, largest]  sigma min  lost  gaussian  block neighbourhood\n";

std::string table_line(const Case& c, const GeometryResult& result, const Spread& gaussian) {
  const SketchSpec& spec = result.spec;
  const Spread distortion = spread_of(result.distortion), smallest = spread_of(result.smallest);
  std::string blocks = "-", kappa = "-", coherences;
  if (result.block_coherence) {
    blocks = to_word(spec.input_blocks);
    kappa = std::to_string(spec.kappa);
    coherences =
        fmt::format("{:>7.2f} {:>13.2f}", *result.block_coherence, spread_of(result.neighbourhood_coherence).median);
  }
  return fmt::format(
      "{:>6} {:>9.3g} {:>11} {:>12} {:>11} {:>5} {:>6} {:>4} {:>5}  {:>17.3f} [{:.3f}, {:.3f}] {:>10.3f} {:>5} "
      "{:>9.3f}{}\n",
      to_word(c.head), c.coherence, to_word(spec.family), blocks, to_word(spec.hash), to_word(spec.precision), spec.d,
      spec.zeta, kappa, distortion.median, distortion.least, distortion.largest, smallest.least, result.rank_losses,
      gaussian.median, coherences);
}

/// The distortion of dense Gaussian sketches of the same d, over the same number of seeds.
Spread gaussian_spread(std::int64_t d, std::int64_t n, const StudyGeometryOptions& options) {
  std::vector<double> distortion;
  for (int k = 0; k < options.seeds; ++k) {
    distortion.push_back(gaussian_geometry(d, n, options.seed + static_cast<std::uint64_t>(k)).distortion());
  }
  return spread_of(distortion);
}

}  // namespace

int run_study_geometry(const StudyGeometryOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, comm);
  PhaseTimer timer;
  const auto backend = make_backend(options.run, comm, timer);
  const std::vector<Case> cases = all_cases(options);
  constexpr double kSlowest = 1e9;  // operations/s of LAPACK on a loaded core
  const auto m = static_cast<double>(options.rows), n = static_cast<double>(options.cols);
  watchdog.enter("make the basis", 4 * m * n * n / kSlowest);
  std::optional<CoherenceSweep> basis;
  std::optional<StudyOutput> output;  // on rank 0
  comm.together([&] {
    basis.emplace(options.rows, options.cols, options.data_seed);
    for (const Case& c : cases) make_sketch_spec(basis->shape(), c.sketch);  // before anything takes time
    if (comm.is_root()) output.emplace(options.output, options.run.quiet, kCsvHeader, kTableHeader);
  });
  std::map<std::int64_t, Spread> gaussian;  // by d
  for (const Case& c : cases) {
    watchdog.enter("study geometry", options.seeds * 8 * m * n * n / kSlowest);
    basis->mix(c.coherence, c.head);
    const GeometryResult result = study_geometry(
        c.sketch, options.seeds, static_cast<std::int64_t>(options.run.chunk_rows), *basis, *backend, comm);
    comm.together([&] {
      if (!comm.is_root()) return;
      const std::int64_t d = result.spec.d;
      if (!gaussian.contains(d)) gaussian[d] = gaussian_spread(d, options.cols, options);
      output->add(csv_line(*backend, basis->shape(), c, result, gaussian[d]), table_line(c, result, gaussian[d]));
    });
  }
  comm.together([&] {
    if (comm.is_root()) output->finish();
  });
  return 0;
}

}  // namespace tallsketch
