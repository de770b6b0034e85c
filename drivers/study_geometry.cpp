// tallsketch study geometry: how sketches distort orthonormal bases between low coherence and coordinate rows.
// One CSV line a case on standard output or in a file, and a table for people on standard error.

#include <cmath>
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
  StudyFamily family = StudyFamily::kSparseStack;
  SketchOptions sketch;  // of gaussian only oversample and seed
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

/// FP32 first, so that 16 bits can be told beside it.
std::vector<SketchPrecision> precisions(const StudyGeometryOptions& options) {
  std::vector<SketchPrecision> sorted = options.precision;
  std::stable_partition(sorted.begin(), sorted.end(), [](SketchPrecision p) { return p == SketchPrecision::kFp32; });
  return sorted;
}

/// For one basis. It is not filled in.
std::vector<Case> all_sketches(const StudyGeometryOptions& options) {
  std::vector<Case> cases;
  Case next;
  next.sketch.seed = options.seed;
  next.sketch.scaling = options.scaling;
  for (const double oversample : options.oversample) {
    next.sketch.oversample = oversample;
    for (const StudyFamily family : options.family) {
      next.family = family;
      if (family == StudyFamily::kGaussian) {
        cases.push_back(next);
        continue;
      }
      next.sketch.family = family == StudyFamily::kBlockPerm ? SketchFamily::kBlockPerm : SketchFamily::kSparseStack;
      for (const SketchHash hash : options.hash) {
        for (const SketchPrecision precision : precisions(options)) {
          next.sketch.hash = hash;
          next.sketch.precision = precision;
          for (const SketchOptions& member : family_members(options, next.sketch)) {
            cases.push_back({next.coherence, next.head, family, member});
          }
        }
      }
    }
  }
  return cases;
}

/// Bases outermost: a basis is mixed once for all its sketches.
std::vector<Case> all_cases(const StudyGeometryOptions& options) {
  std::vector<Case> cases;
  for (const HeadRows head : options.head) {
    for (const double coherence : options.coherence) {
      for (Case next : all_sketches(options)) {
        next.coherence = coherence;
        next.head = head;
        cases.push_back(next);
      }
    }
  }
  return cases;
}

/// What a line tells beside the case's own result.
struct Beside {
  Spread gaussian;                                                  // distortions of dense sketches of the same d
  std::optional<PrecisionGap> of_distortion, of_length_distortion;  // to FP32
};

const char* const kCsvHeader =
    "backend,commit,m,n,head,coherence,largest_leverage,family,hash,precision,d,zeta,kappa,block_rows,input_blocks,"
    "first_seed,seeds,distortion_median,distortion_least,distortion_largest,length_distortion_median,sigma_min_median,"
    "sigma_min_least,rank_losses,gaussian_distortion_median,block_coherence,neighbourhood_coherence_median,"
    "neighbourhood_coherence_least,neighbourhood_coherence_largest,minus_fp32_median,minus_fp32_largest,"
    "length_minus_fp32_median,length_minus_fp32_largest,device,ranks,data_seed,scaling,rounding\n";

/// "permuted,fp32,256,4,,,": hash to input blocks. A dense sketch has neither hash nor nonzeros to count.
std::string sketch_fields(const Case& c, const SketchSpec& spec) {
  if (c.family == StudyFamily::kGaussian) return fmt::format(",fp64,{},,,,", spec.d);
  const std::string blocks = c.family == StudyFamily::kBlockPerm
                                 ? fmt::format("{},{},{}", spec.kappa, spec.block_rows, to_word(spec.input_blocks))
                                 : ",,";
  return fmt::format("{},{},{},{},{}", to_word(spec.hash), to_word(spec.precision), spec.d, spec.zeta, blocks);
}

std::string coherence_fields(const GeometryResult& result) {
  if (!result.block_coherence) return ",,,";
  const Spread neighbourhood = spread_of(result.neighbourhood_coherence);
  return fmt::format("{:.6g},{:.6g},{:.6g},{:.6g}", *result.block_coherence, neighbourhood.median, neighbourhood.least,
                     neighbourhood.largest);
}

std::string gap_fields(const std::optional<PrecisionGap>& gap) {
  return gap ? fmt::format("{:.3g},{:.3g}", gap->median, gap->largest) : ",";
}

/// "2 threads,1,7,auto,nearest": how it was made. A dense sketch is not scaled, and nothing of it rounded to 16 bits.
std::string run_fields(const Backend& backend, int ranks, std::uint64_t data_seed, const Case& c,
                       const SketchSpec& spec) {
  const bool dense = c.family == StudyFamily::kGaussian;
  return fmt::format("{},{},{},{},{}", csv_word(backend.device()), ranks, data_seed,
                     dense ? "" : to_word(c.sketch.scaling), dense ? "" : to_word(spec.rounding));
}

std::string csv_line(const Backend& backend, const ProblemShape& shape, const std::string& run, const Case& c,
                     const GeometryResult& result, const Beside& beside) {
  const Spread distortion = spread_of(result.distortion), smallest = spread_of(result.smallest);
  return fmt::format(
      "{},{},{},{},{},{},{:.6g},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{:.6g},{},{},{},{}\n",
      backend.name(), version_git(), shape.m, shape.n, to_word(c.head), c.coherence, result.largest_leverage,
      to_word(c.family), sketch_fields(c, result.spec), result.spec.seed, result.distortion.size(), distortion.median,
      distortion.least, distortion.largest, spread_of(result.length_distortion).median, smallest.median, smallest.least,
      result.rank_losses, beside.gaussian.median, coherence_fields(result), gap_fields(beside.of_distortion),
      gap_fields(beside.of_length_distortion), run);
}

const char* const kTableHeader =
    "  head coherence      sketch input blocks        hash  prec      d zeta kappa  "
    "distortion median [least, largest]  sigma min  lost  gaussian  block neighbourhood  minus fp32\n";

std::string table_line(const Case& c, const GeometryResult& result, const Beside& beside) {
  const SketchSpec& spec = result.spec;
  const Spread distortion = spread_of(result.distortion), smallest = spread_of(result.smallest);
  const bool dense = c.family == StudyFamily::kGaussian;
  std::string blocks = "-", kappa = "-", coherences = fmt::format("{:>21}", ""), gap;
  if (result.block_coherence) {
    blocks = to_word(spec.input_blocks);
    kappa = std::to_string(spec.kappa);
    coherences =
        fmt::format("{:>7.2f} {:>13.2f}", *result.block_coherence, spread_of(result.neighbourhood_coherence).median);
  }
  if (beside.of_distortion) gap = fmt::format("  {:>+10.1e}", beside.of_distortion->median);
  return fmt::format(
      "{:>6} {:>9.3g} {:>11} {:>12} {:>11} {:>5} {:>6} {:>4} {:>5}  {:>17.3f} [{:.3f}, {:.3f}] {:>10.3f} {:>5} "
      "{:>9.3f}{}{}\n",
      to_word(c.head), c.coherence, to_word(c.family), blocks, dense ? "-" : to_word(spec.hash),
      dense ? "fp64" : to_word(spec.precision), spec.d, dense ? "-" : std::to_string(spec.zeta), kappa,
      distortion.median, distortion.least, distortion.largest, smallest.least, result.rank_losses,
      beside.gaussian.median, coherences, gap);
}

std::int64_t dense_rows(const Case& c, std::int64_t n) {
  return static_cast<std::int64_t>(std::ceil(c.sketch.oversample * static_cast<double>(n)));
}

/// What was found so far, on rank 0: what other lines are told beside.
class Reference {
 public:
  Reference(std::int64_t n, const StudyGeometryOptions& options) : n_(n), options_(options) {}

  const GeometryResult& gaussian(std::int64_t d) {
    auto found = gaussian_.find(d);
    if (found == gaussian_.end()) {
      found = gaussian_.emplace(d, study_gaussian(d, n_, options_.seed, options_.seeds)).first;
    }
    return found->second;
  }

  Beside beside(const Case& c, const GeometryResult& result) {
    Beside beside{spread_of(gaussian(result.spec.d).distortion), {}, {}};
    if (c.family == StudyFamily::kGaussian) return beside;
    const std::string name = fmt::format("{} {} {}", to_word(c.head), c.coherence, describe(result.spec));
    if (result.spec.precision == SketchPrecision::kFp32) {
      wide_[name] = result;
    } else if (const auto wide = wide_.find(name); wide != wide_.end()) {
      beside.of_distortion = precision_gap(result.distortion, wide->second.distortion);
      beside.of_length_distortion = precision_gap(result.length_distortion, wide->second.length_distortion);
    }
    return beside;
  }

 private:
  std::int64_t n_;
  const StudyGeometryOptions& options_;
  std::map<std::int64_t, GeometryResult> gaussian_;  // by d
  std::map<std::string, GeometryResult> wide_;       // FP32, by basis and sketch
};

}  // namespace

int run_study_geometry(const StudyGeometryOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, comm);
  PhaseTimer timer;
  RunOptions run = options.run;
  run.emulate_half = true;
  const auto backend = make_backend(run, comm, timer);
  const std::vector<Case> cases = all_cases(options);
  constexpr double kSlowest = 1e9;  // operations/s of LAPACK on a loaded core
  const auto m = static_cast<double>(options.rows), n = static_cast<double>(options.cols);
  watchdog.enter("make the basis", 4 * m * n * n / kSlowest);
  std::optional<CoherenceSweep> basis;
  std::optional<StudyOutput> output;  // on rank 0
  comm.together([&] {
    basis.emplace(options.rows, options.cols, options.data_seed);
    for (const Case& c : cases) {  // before anything takes time
      if (c.family != StudyFamily::kGaussian) make_sketch_spec(basis->shape(), c.sketch);
    }
    if (comm.is_root()) output.emplace(options.output, options.run.quiet, kCsvHeader, kTableHeader);
  });
  Reference reference(options.cols, options);
  for (const Case& c : cases) {
    watchdog.enter("study geometry", options.seeds * 8 * m * n * n / kSlowest);
    basis->mix(c.coherence, c.head);
    GeometryResult result;
    if (c.family != StudyFamily::kGaussian) {
      result = study_geometry(c.sketch, options.seeds, static_cast<std::int64_t>(options.run.chunk_rows), *basis,
                              *backend, comm);
    }
    comm.together([&] {
      if (!comm.is_root()) return;
      if (c.family == StudyFamily::kGaussian) {
        result = reference.gaussian(dense_rows(c, options.cols));
        result.largest_leverage = basis->largest_leverage();
      }
      const Beside beside = reference.beside(c, result);
      const std::string made = run_fields(*backend, comm.size(), options.data_seed, c, result.spec);
      output->add(csv_line(*backend, basis->shape(), made, c, result, beside), table_line(c, result, beside));
    });
  }
  comm.together([&] {
    if (comm.is_root()) output->finish();
  });
  return 0;
}

}  // namespace tallsketch
