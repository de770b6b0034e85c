#include "src/option_kinds.h"

namespace tallsketch {

namespace {

constexpr std::int64_t kMostCols = std::int64_t{1} << 24;

/// Types of A in memory.
const Words<ElementType>& types() {
  static const Words<ElementType> words = {{"f4", ElementType::kFloat32},
                                           {"f8", ElementType::kFloat64},
                                           {"f2", ElementType::kFloat16},
                                           {"bf2", ElementType::kBfloat16}};
  return words;
}

void add_repeats(CLI::App& app, int& repeats) {
  app.add_option("--repeats", repeats, "timed runs of each shape; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
}

/// Sizes and type of A and b, of measurements that run the solver's passes.
template <class Options>
void add_bench_problem(CLI::App& app, Options& options, const std::string& bytes, const std::string& rhs) {
  add_numbers(app, "--cols", options.cols, "n, a list", kMostCols);
  app.add_option("--bytes", options.bytes, bytes)->transform(size_value())->capture_default_str();
  add_numbers(app, "--rhs", options.rhs, rhs, 1024);
  add_list(app, "--dtype", options.dtype, types(), "type of A in memory");
}

/// Sizes of A and of its sketch.
void add_bench_sizes(CLI::App& app, BenchSketchOptions& options) {
  constexpr std::int64_t kMostRows = (std::int64_t{1} << 32) - 1;
  add_numbers(app, "--cols", options.cols, "n, a list", kMostCols);
  auto* bytes =
      app.add_option("--bytes", options.bytes,
                     "size of A; m = bytes / n / 4, with --dtype f2 and bf2 bytes / n / 2, with f8 bytes / n / 8")
          ->transform(size_value())
          ->capture_default_str();
  app.add_option("--rows", options.rows, "m, exactly, a list (default: from --bytes)")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, kMostRows))
      ->excludes(bytes);
  auto* oversample = app.add_option("--oversample", options.oversample, "d / n, a list")
                         ->delimiter(',')
                         ->capture_default_str()
                         ->check(check_oversample);
  app.add_option("--sketch-rows", options.sketch_rows, "d, exactly, a list (default: from --oversample)")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, kMaxSketchRows))
      ->excludes(oversample);
}

}  // namespace

void add_bench_sketch_options(CLI::App& app, BenchSketchOptions& options) {
  add_bench_sizes(app, options);
  add_list(app, "--family", options.family,
           "flashblockrow samples rows of A: fast, but not an embedding, as columns of S may be empty");
  add_list(app, "--hash", options.hash);
  add_numbers(app, "--zeta", options.zeta, "sparsestack: nonzeros of S in every column, a list", kMaxZeta);
  add_numbers(app, "--kappa", options.kappa,
              "blockperm, flashblockrow: blocks that meet in one, a list (default: 2, or the number of blocks)",
              kMaxZeta);
  add_numbers(app, "--block-nnz", options.block_nnz,
              "blockperm: nonzeros of S in every column of a block; flashblockrow: in every row; a list", kMaxZeta);
  add_numbers(app, "--block-rows", options.block_rows, "blockperm: sketch rows of a block, a list", kMaxDealRows);
  add_list(app, "--input-blocks", options.input_blocks, "blockperm");
  add_list(app, "--precision", options.precision);
  add_list(app, "--rounding", options.rounding, "fp32 and fp64 take nearest only");
  add_list(
      app, "--kernel", options.kernel,
      "GPU kernels, and of baselines spmm: the same S by cuSPARSE; gaussian: a dense S of the same d by cuBLAS, on "
      "the host by BLAS");
  add_list(app, "--dtype", options.dtype, types(), "type of A in memory; f8 is for --precision fp64");
  app.add_option("--rhs", options.rhs, "columns of b that are sketched along; the floor stays that of A")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  add_repeats(app, options.repeats);
  add_backend_choice(app, options.run);
  add_run_options(app, options.run);
}

void add_bench_solve_options(CLI::App& app, BenchSolveOptions& options) {
  add_bench_problem(app, options, "size of a rank's part of A; m = ranks bytes / (n elements)",
                    "r, columns of b, a list");
  app.add_option("--cond", options.cond, "condition numbers of A, a list")
      ->delimiter(',')
      ->capture_default_str()
      ->check(number_between(1, 1e15));
  app.add_option("--residual", options.residual, "||b - A x|| / ||A x||, a list")
      ->delimiter(',')
      ->capture_default_str()
      ->check(number_between(0, 1e30));
  add_list(app, "--route", options.route, "ways to x; normal-equations and qr are rivals");
  add_tolerance(app, options.tolerance);
  add_oversample(app, options.oversample);
  app.add_option("--seed", options.seed, "seed of the data, 64 bits")->capture_default_str()->check(check_seed);
  add_repeats(app, options.repeats);
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

void add_bench_passes_options(CLI::App& app, BenchPassesOptions& options) {
  add_bench_problem(app, options, "size of A; m = bytes / (n elements)",
                    "r, columns of b, a list; the floor stays that of A");
  add_repeats(app, options.repeats);
  add_backend_choice(app, options.run);
  add_run_options(app, options.run);
}

void add_bench_reduce_options(CLI::App& app, BenchReduceOptions& options) {
  static const Words<SketchPrecision> precisions = {
      {"fp32", SketchPrecision::kFp32}, {"fp16", SketchPrecision::kFp16}, {"fp64", SketchPrecision::kFp64}};
  add_numbers(app, "--sketch-rows", options.sketch_rows, "d, a list", kMaxSketchRows);
  add_numbers(app, "--cols", options.cols, "n, a list", kMostCols);
  app.add_option("--rhs", options.rhs, "r, columns of b")->capture_default_str()->check(CLI::Range(0, 1024));
  add_list(app, "--precision", options.precision, precisions,
           "of what is sent; fp16: of A's columns, as --reduce fp16 does; fp64: as of FP64 sketches");
  add_repeats(app, options.repeats);
  add_backend_choice(app, options.run);
  add_choice(app, "--comm", options.run.comm, "library of the all-reduce on GPUs");
  add_run_options(app, options.run);
}

void add_bench_io_options(CLI::App& app, BenchIoOptions& options) {
  add_source_options(app, options.input, options.synthetic);
  add_repeats(app, options.repeats);
  add_backend_choice(app, options.run);
  add_run_options(app, options.run);
}

void add_study_geometry_options(CLI::App& app, StudyGeometryOptions& options) {
  app.add_option("--rows", options.rows, "m, rows of the orthonormal basis U")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("M");
  app.add_option("--cols", options.cols, "n, its columns; at most m / 2")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--coherence", options.coherence,
                 "leverage of the head, n rows near coordinate vectors, a list: 0 a Gaussian basis, 1 coordinate rows")
      ->delimiter(',')
      ->capture_default_str()
      ->check(number_between(0, 1));
  add_list(app, "--head", options.head, "which rows of U are the head");
  app.add_option("--data-seed", options.data_seed, "seed of U, 64 bits")->capture_default_str()->check(check_seed);
  app.add_option("--oversample", options.oversample, "d / n, a list; d is rounded up as in solve")
      ->delimiter(',')
      ->capture_default_str()
      ->check(check_ratio);
  static const Words<StudyFamily> families = {{"sparsestack", StudyFamily::kSparseStack},
                                              {"blockperm", StudyFamily::kBlockPerm},
                                              {"gaussian", StudyFamily::kGaussian}};
  add_list(app, "--sketch", options.family, families, "gaussian: a dense S, the yardstick");
  add_list(app, "--hash", options.hash);
  add_numbers(app, "--zeta", options.zeta, "sparsestack: nonzeros of S in every column, a list", kMaxZeta);
  add_numbers(app, "--kappa", options.kappa,
              "blockperm: blocks of the sketch that every row goes to, a list (default: 2, or the number of blocks)",
              kMaxZeta);
  add_block_options(app, options.block_nnz, options.block_rows);
  add_list(app, "--input-blocks", options.input_blocks, "blockperm");
  add_list(app, "--precision", options.precision,
           "fp16 and bf16 as GPUs do them, emulated on the host; of gaussian always fp64");
  add_scaling_option(app, options.scaling);
  add_sketch_seeds(app, options.seed, options.seeds);
  app.add_option("-o,--output", options.output, "CSV file (default: standard output)")->type_name("X.csv");
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

}  // namespace tallsketch
