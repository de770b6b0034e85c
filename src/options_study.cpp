// Flags of the studies of solves; study geometry's stand in options_bench.cpp.
#include "src/option_kinds.h"

namespace tallsketch {

namespace {

/// What both have: the systems, the sketches, the seeds, where it all goes.
template <class Options>
void add_study_options(CLI::App& app, Options& options) {
  app.add_option("--rows", options.rows, "m, rows of the systems; at least 2 n")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("M");
  app.add_option("--cols", options.cols, "n, their columns")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("N");
  add_list(app, "--system", options.system,
           "singular values 100 to 1 and noise everywhere; or the rows of a unit matrix, noisy, among small ones");
  app.add_option("--data-seed", options.data_seed, "seed of the systems, 64 bits")
      ->capture_default_str()
      ->check(check_seed);
  app.add_option("--oversample", options.oversample, "d / n, a list; d is rounded up as in solve")
      ->delimiter(',')
      ->capture_default_str()
      ->check(check_ratio);
  add_numbers(app, "--zeta", options.zeta, "nonzeros of S in every column, a list; 1 is CountSketch", kMaxZeta);
  add_list(app, "--hash", options.hash);
  add_sketch_seeds(app, options.seed, options.seeds);
  app.add_option("-o,--output", options.output, "CSV file (default: standard output)")->type_name("X.csv");
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

}  // namespace

void add_study_lstsq_options(CLI::App& app, StudyLstsqOptions& options) {
  add_study_options(app, options);
  app.add_option("--ridge", options.ridge, "LAMBDA: minimise ||A x - b||^2 + LAMBDA ||x||^2, a list")
      ->delimiter(',')
      ->capture_default_str()
      ->check(number_between(0, 1e150));
  add_list(app, "--precision", options.precision, "of the sketch; fp16 and bf16 are emulated on the host backend");
  add_list(app, "--method", options.method, "refine is preconditioned by the sketch");
  add_choice(app, "--rounding", options.rounding, "how a product becomes a contribution to an fp16 or bf16 sketch");
  add_scaling_option(app, options.scaling);
  add_choice(app, "--reduced-solver", options.reduced_solver, "how the sketch is factored, as in solve");
}

void add_study_range_options(CLI::App& app, StudyRangeOptions& options) {
  add_study_options(app, options);
  app.add_option("--power", options.power, "k of the factors 2^k of A and b, a list")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(-60, 60));
  static const Words<SketchPrecision> halves = {{"fp16", SketchPrecision::kFp16}, {"bf16", SketchPrecision::kBf16}};
  add_list(app, "--precision", options.precision, halves,
           "beside an fp32 sketch of each seed; emulated on the host backend");
  add_list(app, "--rounding", options.rounding, "how a product becomes a contribution");
  add_list(app, "--scaling", options.scaling, "of columns by powers of two");
}

}  // namespace tallsketch
