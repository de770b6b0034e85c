// Flags of study coherence.
#include "src/option_kinds.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 24;

/// Sizes and kinds of A.
void add_problem_options(CLI::App& app, StudyCoherenceOptions& options) {
  add_list(
      app, "--kind", options.kind,
      "coherent: identity rows among a tail of 1e-3; coordinate: identity rows first; lowrank: --rank plus 1e-5 noise");
  app.add_option("--rows", options.rows, "m")->transform(size_value())->capture_default_str()->type_name("M");
  app.add_option("--cols", options.cols, "n")->transform(size_value())->capture_default_str()->type_name("N");
  app.add_option("--rank", options.rank, "rank of kind lowrank, before its noise")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, kMostSize));
  app.add_option("--noise", options.noise, "standard deviation of b - A x_true, per entry")
      ->capture_default_str()
      ->check(number_between(0, 1e30));
  app.add_option("--data-seed", options.data_seed, "seed of A and b, 64 bits")
      ->capture_default_str()
      ->check(check_seed);
}

/// What S is, and how it is applied when it is timed.
void add_grid_options(CLI::App& app, StudyCoherenceOptions& options) {
  static const Words<BenchKernel> kernels = {{"auto", BenchKernel::kAuto},
                                             {"strip", BenchKernel::kStrip},
                                             {"scatter", BenchKernel::kScatter},
                                             {"flash", BenchKernel::kFlash},
                                             {"spmm", BenchKernel::kSpmm}};
  auto* oversample = app.add_option("--oversample", options.oversample, "d / n, a list; d is rounded up as in solve")
                         ->delimiter(',')
                         ->capture_default_str()
                         ->check(check_ratio);
  app.add_option("--sketch-rows", options.sketch_rows,
                 "d, exactly, a list; n or fewer leave task solve out (default: from --oversample)")
      ->delimiter(',')
      ->type_name("LIST")
      ->check(CLI::Range(std::int64_t{1}, kMaxSketchRows))
      ->excludes(oversample);
  add_list(app, "--sketch", options.family,
           "flashblockrow: sampled rows, no embedding; timed on GPUs only. gaussian: a dense S");
  add_list(app, "--hash", options.hash);
  add_numbers(app, "--zeta", options.zeta, "sparsestack: nonzeros of S in every column, a list", kMaxZeta);
  add_numbers(app, "--kappa", options.kappa, "blockperm, flashblockrow: blocks that meet in one, a list", kMaxZeta);
  add_numbers(app, "--block-nnz", options.block_nnz,
              "blockperm: nonzeros of S in every column of a block; flashblockrow: in every row; a list", kMaxZeta);
  add_numbers(app, "--block-rows", options.block_rows, "blockperm: sketch rows of a block, a list", kMaxDealRows);
  add_list(app, "--input-blocks", options.input_blocks, "blockperm");
  add_list(app, "--kernel", options.kernel, kernels,
           "GPU kernels that are timed; flash: paper B's, for blockperm; spmm: cuSPARSE");
}

}  // namespace

void add_study_coherence_options(CLI::App& app, StudyCoherenceOptions& options) {
  add_problem_options(app, options);
  add_grid_options(app, options);
  add_list(app, "--task", options.task, "paper B's");
  app.add_flag("--no-coherence", options.no_coherence,
               "leave out the coherences of blockperm's blocks, M n^3 operations a seed");
  app.add_option("--ridge", options.ridge, "LAMBDA of task ridge")
      ->capture_default_str()
      ->check(number_between(1e-300, 1e150));
  add_sketch_seeds(app, options.seed, options.seeds);
  app.add_option("--repeats", options.repeats, "timed runs of each sketch; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("-o,--output", options.output, "CSV file (default: standard output)")->type_name("X.csv");
  add_backend_choice(app, options.run);
  add_run_options(app, options.run);
}

}  // namespace tallsketch
