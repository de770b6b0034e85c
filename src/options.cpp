#include "src/options.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "src/gpu_model.h"
#include "src/option_kinds.h"

namespace tallsketch {

DatasetName parse_dataset_name(const std::string& text) {
  const auto colon = text.rfind(":/");
  if (colon != std::string::npos && colon > 0) return {text.substr(0, colon), text.substr(colon + 1)};
  return {text, ""};
}

void add_input_options(CLI::App& app, InputOptions& options) {
  app.add_option("FILE", options.files,
                 "HDF5 or .npy file with A, or several row shards in order; FILE:/name picks a dataset")
      ->required()
      ->type_name("FILE[:/A]");
  app.add_option("--a", options.a, "dataset of A, (m, n): floats, bfloat16, integers, booleans (docs/formats.md)")
      ->capture_default_str()
      ->type_name("/NAME");
  app.add_option("--b", options.b, "dataset of b, (m), (m, 1) or (m, r); FILE:/name or FILE.npy for a file of its own")
      ->capture_default_str()
      ->type_name("/NAME");
  app.add_flag("--transpose", options.transpose,
               "A is stored (n, m), as MATLAB, Julia and Fortran write it, and a b of two dimensions (r, m)");
  add_choice(app, "--io", options.io,
             "how rows are read: mpio: by parallel HDF5; direct: at their place in the file, by several threads, which "
             "only contiguous datasets and .npy files allow; auto: by what is faster for the layout");
  add_choice(app, "--data-precision", options.data_precision,
             "fp32: A of float64 or of 32- and 64-bit integers is rounded to float32 as it is read, and x solves the "
             "rounded problem");
}

void add_sketch_options(CLI::App& app, SketchOptions& options) {
  add_choice(app, "--sketch", options.family, "sketch family");
  app.add_option("--zeta", options.zeta, "sparsestack: nonzeros of S in every column (default: 4)")
      ->check(CLI::Range(1, kMaxZeta));
  app.add_option("--kappa", options.kappa,
                 "blockperm: blocks of the sketch that every row goes to (default: 2, or the number of blocks)")
      ->check(CLI::Range(1, kMaxZeta));
  add_block_options(app, options.block_nnz, options.block_rows);
  add_choice(app, "--input-blocks", options.input_blocks, words_of(InputBlocks{}),
             "blockperm: which rows of A form a block: every M-th, or consecutive ones as in the paper");
  add_choice(app, "--hash", options.hash,
             "how a row finds its bucket: without or with replacement inside a batch of rows");
  CLI::Option* const oversample = add_oversample(app, options.oversample);
  app.add_option("--sketch-rows", options.sketch_rows,
                 "d, exactly; a multiple of zeta for the permuted hash, of --block-rows for blockperm")
      ->check(CLI::Range(std::int64_t{1}, kMaxSketchRows))
      ->excludes(oversample)
      ->type_name("D");
  app.add_option(
         "--check-rows", options.check_rows,
         "sketch-solve: further rows of the sketch, on top of --oversample or --sketch-rows and rounded up to whole "
         "blocks, that x is not made from and that measure its residual (default: 64 from d = 960 on, else 0)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}))
      ->type_name("C");
  app.add_option("--seed", options.seed, "seed of the sketch, 64 bits")->capture_default_str()->check(check_seed);
  add_choice(app, "--precision", options.precision,
             "number format in which the sketch of A is accumulated; fp16 and bf16 on GPUs only");
  add_choice(app, "--rounding", options.rounding, "how a product becomes a contribution to an fp16 or bf16 sketch");
  add_scaling_option(app, options.scaling);
  add_choice(app, "--reduce", options.reduce,
             "number format in which the ranks' sketches of A are summed; fp16 sends half the bytes, "
             "in columns scaled by powers of two; an fp64 sketch is always summed in fp64");
  for (const char* name :
       {"--sketch", "--zeta", "--kappa", "--block-nnz", "--block-rows", "--input-blocks", "--hash", "--oversample",
        "--sketch-rows", "--check-rows", "--seed", "--precision", "--rounding", "--scaling", "--reduce"}) {
    app.get_option(name)->each([&options, name](const std::string&) { options.given.emplace_back(name); });
  }
}

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("--chunk-rows", options.chunk_rows, "rows worked on at a time; 0: chosen by the program")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("N");
  add_seconds(
      app, "--timeout", options.timeout,
      "a stage that outlasts its estimate (three times) by so long without progress ends the job, code 8; 0: never");
  app.add_flag("--ignore-launcher", options.ignore_launcher,
               "run even if the launcher started more tasks than MPI sees");
  auto* quiet = app.add_flag("--quiet", options.quiet, "no progress lines and no warnings; the report has them");
  app.add_flag("--verbose", options.verbose, "more lines: ranks, devices, plan")->excludes(quiet);
}

void add_backend_options(CLI::App& app, RunOptions& options) {
  add_backend_choice(app, options);
  add_choice(app, "--comm", options.comm, "library of the all-reduce on GPUs");
  add_choice(app, "--kernel", options.kernel,
             "sketch kernel on GPUs; auto: the strip engine where it serves the sketch, else scatter; "
             "flash: the kernel of the "
             "blockperm paper, a baseline");
  app.add_option("--memory", options.memory_bytes,
                 "memory a rank may use on its backend, bytes or 500M (10^6), 2GiB (2^30); 0: what is free")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("SIZE");
  add_choice(app, "--residency", options.residency,
             "where A stays between passes: in device memory, in host memory (with GPUs page-locked, and uploaded for "
             "every pass), or in the file, read again for every pass; auto: the first of them with room for it");
}

void add_method_options(CLI::App& app, MethodOptions& options) {
  add_choice(app, "--method", options.method,
             "refine: passes over A until the backward error of x is certified; sketch-solve: one pass over A, x from "
             "the sketch, with a residual up to some 40 per cent above the least (d = 2n)");
  add_tolerance(app, options.tolerance);
  app.add_option(
         "--max-iters", options.max_passes,
         "refine: passes over A after that of the preconditioner, at most; a certificate takes three at least; 0 or "
         "1: x of the preconditioner, judged by one pass")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  app.add_option("--ridge", options.ridge, "LAMBDA: minimise ||A x - b||^2 + LAMBDA ||x||^2")
      ->capture_default_str()
      ->check(number_between(0, 1e150))
      ->type_name("LAMBDA");
  app.add_flag(
      "--standard-errors", options.standard_errors,
      "refine: also writes /standard_errors, of the shape of x, as for independent errors of b of equal variance");
  add_choice(app, "--rank-deficient", options.rank_policy,
             "where columns of A depend on each other: error: code 5, columns named; min-norm: the x of least norm");
  add_choice(
      app, "--preconditioner", options.preconditioner,
      "refine: what the passes are preconditioned by, a sketch of A or its FP64 Gram matrix (normal equations; up "
      "to condition 1e7, then the sketch); auto: what is expected to be faster, but a sketch where an option shapes "
      "it");
  add_choice(
      app, "--reduced-solver", options.reduced_solver,
      "how the sketch is factored: QR in its own precision; Cholesky of its FP64 Gram matrix (up to condition 1e6, "
      "then QR); svd: QR, then by singular values; auto: cholesky, for an fp64 sketch qr");
}

void add_checkpoint_options(CLI::App& app, CheckpointOptions& options) {
  CLI::Option* const path =
      app.add_option("--checkpoint", options.path,
                     "file that the run saves itself to, on an interval and at INT, TERM, HUP and "
                     "USR1; it goes when the result is written (default: none)")
          ->type_name("FILE.h5");
  add_seconds(app, "--checkpoint-every", options.every, "time between two checkpoints; 0: at every chunk of rows")
      ->needs(path);
  app.add_flag("--resume", options.resume,
               "go on from the checkpoint, if it is there; input and options must be those of the run that wrote it")
      ->needs(path);
}

void add_solve_options(CLI::App& app, SolveOptions& options) {
  add_source_options(app, options.input, options.synthetic);
  app.add_option(
         "--from-sketch", options.from_sketch,
         "sketch file of all rows, by tallsketch sketch: refine begins with it; without FILE, x is of the sketch "
         "alone, by --method sketch-solve")
      ->type_name("S.h5");
  app.add_option("-o,--output", options.output,
                 "result file; default: <stem of the first FILE>.x.h5, beside it; with --kind synthetic.x.h5")
      ->type_name("X.h5");
  app.add_option("--report", options.report, "JSON report; - for standard output (progress then on standard error)")
      ->type_name("R.json");
  add_method_options(app, options.method);
  add_sketch_options(app, options.sketch);
  add_checkpoint_options(app, options.checkpoint);
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
  app.callback([&app, &options] {
    if (!options.input.files.empty() || options.synthetic.kind) return;
    if (options.from_sketch.empty()) throw CLI::RequiredError("FILE (or --kind, --rows and --cols, or --from-sketch)");
    const bool refines = app.count("--method") > 0 && options.method.method == SolveMethod::kRefine;
    if (refines) {
      throw CLI::ValidationError("--method", "refine makes passes over A: give its FILE, too, or leave --method out");
    }
    options.method.method = SolveMethod::kSketchSolve;
  });
}

void add_sketch_file_options(CLI::App& app, SketchFileOptions& options) {
  add_source_options(app, options.input, options.synthetic);
  app.add_option("-o,--output", options.output, "sketch file; default: <stem of the first FILE>.sketch.h5, beside it")
      ->type_name("S.h5");
  app.add_option(
         "--merge", options.merge,
         "FILEs are sketch files of disjoint rows, made with the same options: their sum, in the order given, goes "
         "to OUT")
      ->type_name("OUT");
  constexpr std::int64_t kMostRows = std::int64_t{1} << 60;
  app.add_option("--first-row", options.first_row, "FILE holds the rows N, N + 1, ... of a larger matrix")
      ->transform(size_value())
      ->check(CLI::Range(std::int64_t{0}, kMostRows))
      ->default_str("0")
      ->type_name("N");
  app.add_option("--total-rows", options.total_rows,
                 "rows of that matrix; --input-blocks contiguous needs them; 0: those up to the last of FILE")
      ->transform(size_value())
      ->check(CLI::Range(std::int64_t{0}, kMostRows))
      ->capture_default_str()
      ->type_name("M");
  app.add_option("--report", options.report, "JSON report; - for standard output (progress then on standard error)")
      ->type_name("R.json");
  add_sketch_options(app, options.sketch);
  add_checkpoint_options(app, options.checkpoint);
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

namespace {

constexpr int kMostRanks = 1 << 20;

/// "1,2,4" as numbers. CLI11's own lists would take "4,", "4,4" and the FILE after them.
std::vector<int> ranks_of(const std::string& given) {
  std::vector<int> ranks;
  for (std::size_t begin = 0, comma = 0; comma != std::string::npos; begin = comma + 1) {
    comma = given.find(',', begin);
    const std::string word = given.substr(begin, comma == std::string::npos ? comma : comma - begin);
    int count = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || end != word.data() + word.size() || count < 0 || count > kMostRanks) {
      throw CLI::ValidationError("--ranks", fmt::format("'{}' in '{}' is no whole number of 0 to {}; a list is 1,2,4",
                                                        word, given, kMostRanks));
    }
    if (std::find(ranks.begin(), ranks.end(), count) != ranks.end()) {
      throw CLI::ValidationError("--ranks", fmt::format("'{}' names {} twice", given, count));
    }
    ranks.push_back(count);
  }
  return ranks;
}

/// --gpus, and what belongs to it.
void add_cluster_options(CLI::App& app, ClusterOptions& options) {
  Words<std::string> words;
  for (const char* word : gpu_words()) words.emplace_back(word, word);
  words.emplace_back("host", "host");
  CLI::Option* const gpus =
      app.add_option_function<std::string>(
             "--gpus", [&options, words](const std::string& given) { options.gpus = value_of("--gpus", given, words); },
             "predicts time, memory and efficiency of every step on a cluster of these, without needing one "
             "(docs/scaling.md); host: the host backend (default: none)")
          ->type_name(joined(words, "|"))
          ->excludes("--backend");
  app.add_option("--nodes", options.nodes, "nodes, for the largest of --ranks; 0: as many as nodes of 8 ranks make")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->needs(gpus);
  app.add_option("--threads", options.threads, "threads of a rank, with --gpus host; 0: as many as here")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096))
      ->needs(gpus);
  constexpr double kMostRate = 1e6;
  const auto rate = [&](const char* name, double& target, double least, const std::string& help) {
    app.add_option(name, target, help)
        ->capture_default_str()
        ->check(number_between(least, kMostRate))
        ->needs(gpus)
        ->type_name("X");
  };
  rate("--net-gb-per-s", options.net_gb_per_s, 1e-3, "what a node sends to others and receives, GB/s");
  rate("--net-latency-us", options.net_latency_us, 1e-3, "what a message between nodes takes beside, microseconds");
  rate("--file-gb-per-s", options.file_gb_per_s, 1e-3, "what a node reads from files, GB/s");
  rate("--all-files-gb-per-s", options.all_files_gb_per_s, 0,
       "what all nodes read together at most, GB/s; 0: no limit");
}

}  // namespace

void add_inspect_options(CLI::App& app, InspectOptions& options) {
  add_source_options(app, options.input, options.synthetic);
  add_method_options(app, options.method);
  add_sketch_options(app, options.sketch);
  app.add_option_function<std::string>(
         "--ranks", [&options](const std::string& given) { options.ranks = ranks_of(given); },
         "ranks to plan for; 0: as many as run now; with --gpus at least 1, and perhaps a list: 1,2,4 (default: 0)")
      ->type_name("P[,P...]");
  add_backend_options(app, options.run);
  add_cluster_options(app, options.cluster);
  app.add_flag("--json", options.json, "with --gpus: one JSON line for every number of ranks, and nothing else")
      ->needs("--gpus");
  add_run_options(app, options.run);
}

}  // namespace tallsketch
