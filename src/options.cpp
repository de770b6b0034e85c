#include "src/options.h"

#include <charconv>
#include <cmath>
#include <map>

#include <CLI/CLI.hpp>

#include "src/error.h"

namespace tallsketch {

namespace {

/// An option whose words map to an enumeration; --help lists the words, the default first.
template <class E>
void add_choice(CLI::App& app, const std::string& name, E& target, const std::vector<std::pair<std::string, E>>& words,
                const std::string& help) {
  std::string list;
  for (const auto& [word, value] : words) list += (list.empty() ? "" : "|") + word;
  app.add_option_function<std::string>(
         name,
         [&target, words, name, list](const std::string& given) {
           for (const auto& [word, value] : words) {
             if (word == given) {
               target = value;
               return;
             }
           }
           throw CLI::ValidationError(name, "'" + given + "' is not one of " + list);
         },
         help + " (default: " + words.front().first + ")")
      ->type_name(list);
}

/// CLI11 alone would take "-1" for 2^64 - 1, and what is too large for the largest.
std::string check_seed(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "'" + text + "' is no whole number of 0 to 2^64 - 1";
}

/// "64M" to "64000000". CLI11 alone would take "-5" for 2^64 - 5.
CLI::Validator size_value() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::string given = text;
        const std::string problem =
            "'" + given + "' is no size: a number of 0 to 2^63 - 1, and k, M, G, KiB, MiB or GiB";
        std::int64_t bytes = 0;
        if (given.empty() || given[0] < '0' || given[0] > '9' || !CLI::AsSizeValue(true)(text).empty()) return problem;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
        return error == std::errc() && end == text.data() + text.size() ? "" : problem;
      },
      "");
}

/// CLI::Range lets NaN through.
std::string check_finite(const std::string& text) {
  char* end = nullptr;
  return std::isfinite(std::strtod(text.c_str(), &end)) ? "" : "'" + text + "' is not a finite number";
}

/// CLI11 alone would take a unit without a number for one of it.
std::string check_begins_with_digit(const std::string& text) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9' ? "" : "'" + text + "' does not begin with a number";
}

/// Why a text is no number above 1; empty if it is one.
std::string check_ratio(const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const bool good = used == text.size() && std::isfinite(value) && value > 1 && value <= 1e6;
  return good ? "" : "'" + text + "' is no number above 1 (at most 1e6)";
}

/// Why a text is no d / n; empty if it is one.
std::string check_oversample(const std::string& text) {
  return text == "auto" || check_ratio(text).empty()
             ? ""
             : "'" + text + "' is neither auto nor a number above 1 (at most 1e6)";
}

/// Why a text is no tolerance; empty if it is one.
std::string check_tolerance(const std::string& text) {
  if (text == "auto") return "";
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool good = end == text.c_str() + text.size() && value > 0 && value < 1;
  return good ? "" : "'" + text + "' is neither auto nor a number above 0 and below 1";
}

/// A list of words, separated by commas, that map to an enumeration.
template <class E>
void add_list(CLI::App& app, const std::string& name, std::vector<E>& target, const std::map<std::string, E>& words,
              const std::string& help) {
  app.add_option(name, target, help)->delimiter(',')->transform(CLI::Transformer(words))->type_name("LIST");
}

/// A list of whole numbers of 1 to `most`.
template <class T>
void add_numbers(CLI::App& app, const std::string& name, std::vector<T>& target, const std::string& help,
                 std::int64_t most) {
  app.add_option(name, target, help)
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(T{1}, static_cast<T>(most)));
}

/// Sizes of A and of its sketch.
void add_bench_sizes(CLI::App& app, BenchSketchOptions& options) {
  constexpr std::int64_t kMostRows = (std::int64_t{1} << 32) - 1, kMostCols = std::int64_t{1} << 24;
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

void add_block_options(CLI::App& app, std::optional<int>& block_nnz, std::optional<std::int64_t>& block_rows) {
  app.add_option("--block-nnz", block_nnz, "blockperm: nonzeros of S in each of those blocks (default: 2)")
      ->check(CLI::Range(1, kMaxZeta));
  app.add_option("--block-rows", block_rows, "blockperm: sketch rows of a block (default: 128)")
      ->check(CLI::Range(std::int64_t{1}, kMaxDealRows));
}

void add_scaling_option(CLI::App& app, ScalingChoice& scaling) {
  add_choice<ScalingChoice>(
      app, "--scaling", scaling, {{"auto", ScalingChoice::kAuto}, {"none", ScalingChoice::kNone}},
      "column scaling by powers of two: before an fp16 sketch and, in solve, where data leave the sketch's range");
}

void add_backend_choice(CLI::App& app, RunOptions& options) {
  add_choice<BackendChoice>(
      app, "--backend", options.backend,
      {{"auto", BackendChoice::kAuto}, {"cuda", BackendChoice::kCuda}, {"host", BackendChoice::kHost}},
      "where to compute; auto: cuda where every rank sees a GPU");
}

}  // namespace

DatasetName parse_dataset_name(const std::string& text) {
  const auto colon = text.rfind(":/");
  if (colon != std::string::npos && colon > 0) return {text.substr(0, colon), text.substr(colon + 1)};
  return {text, ""};
}

void add_input_options(CLI::App& app, InputOptions& options) {
  app.add_option("FILE", options.files, "HDF5 file with A, or several row shards in order; FILE:/name picks a dataset")
      ->required()
      ->type_name("FILE[:/A]");
  app.add_option("--a", options.a, "dataset of A, (m, n), float16, float32 or float64, either byte order")
      ->capture_default_str()
      ->type_name("/NAME");
  app.add_option("--b", options.b, "dataset of b, (m), (m, 1) or (m, r); FILE:/name for a file of its own")
      ->capture_default_str()
      ->type_name("/NAME");
}

void add_sketch_options(CLI::App& app, SketchOptions& options) {
  add_choice<SketchFamily>(app, "--sketch", options.family,
                           {{"sparsestack", SketchFamily::kSparseStack}, {"blockperm", SketchFamily::kBlockPerm}},
                           "sketch family");
  app.add_option("--zeta", options.zeta, "sparsestack: nonzeros of S in every column (default: 4)")
      ->check(CLI::Range(1, kMaxZeta));
  app.add_option("--kappa", options.kappa,
                 "blockperm: blocks of the sketch that every row goes to (default: 2, or the number of blocks)")
      ->check(CLI::Range(1, kMaxZeta));
  add_block_options(app, options.block_nnz, options.block_rows);
  app.add_option_function<std::string>(
         "--input-blocks",
         [&options](const std::string& text) {
           options.input_blocks = text == "contiguous" ? InputBlocks::kContiguous : InputBlocks::kInterleaved;
         },
         "blockperm: which rows of A form a block: every M-th, or consecutive ones as in the paper (default: "
         "interleaved)")
      ->type_name("interleaved|contiguous")
      ->check(CLI::IsMember({"interleaved", "contiguous"}));
  add_choice<SketchHash>(app, "--hash", options.hash,
                         {{"permuted", SketchHash::kPermuted}, {"independent", SketchHash::kIndependent}},
                         "how a row finds its bucket: without or with replacement inside a batch of rows");
  auto* oversample =
      app.add_option_function<std::string>(
             "--oversample",
             [&options](const std::string& text) { options.oversample = text == "auto" ? 0 : std::stod(text); },
             "d = R n, rounded up to a multiple of 16 zeta, or of --block-rows; auto: 2, with --method refine 8 "
             "(default: auto)")
          ->type_name("auto|R")
          ->check(check_oversample);
  app.add_option("--sketch-rows", options.sketch_rows,
                 "d, exactly; a multiple of zeta for the permuted hash, of --block-rows for blockperm")
      ->check(CLI::Range(std::int64_t{1}, kMaxSketchRows))
      ->excludes(oversample)
      ->type_name("D");
  app.add_option("--seed", options.seed, "seed of the sketch, 64 bits")->capture_default_str()->check(check_seed);
  add_choice<SketchPrecision>(app, "--precision", options.precision,
                              {{"fp32", SketchPrecision::kFp32},
                               {"fp16", SketchPrecision::kFp16},
                               {"bf16", SketchPrecision::kBf16},
                               {"fp64", SketchPrecision::kFp64}},
                              "number format in which the sketch of A is accumulated; fp16 and bf16 on GPUs only");
  add_choice<SketchRounding>(app, "--rounding", options.rounding,
                             {{"nearest", SketchRounding::kNearest},
                              {"stochastic", SketchRounding::kStochastic},
                              {"dither", SketchRounding::kDither}},
                             "how a product becomes a contribution to an fp16 or bf16 sketch");
  add_scaling_option(app, options.scaling);
  add_choice<ReducePrecision>(app, "--reduce", options.reduce,
                              {{"fp32", ReducePrecision::kFp32}, {"fp16", ReducePrecision::kFp16}},
                              "number format in which the ranks' sketches of A are summed; fp16 sends half the bytes, "
                              "in columns scaled by powers of two; an fp64 sketch is always summed in fp64");
}

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("--chunk-rows", options.chunk_rows, "rows worked on at a time; 0: chosen by the program")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("N");
  app.add_option(
         "--timeout", options.timeout,
         "a stage that outlasts its estimate (three times) by so long without progress ends the job, code 8; 0: never")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::CASE_INSENSITIVE, "s"))
      ->transform(CLI::Validator([](std::string& text) { return check_begins_with_digit(text); }, ""))
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str()
      ->type_name("TIME[s|m|h]");
  app.add_flag("--ignore-launcher", options.ignore_launcher,
               "run even if the launcher started more tasks than MPI sees");
  auto* quiet = app.add_flag("--quiet", options.quiet, "no progress lines");
  app.add_flag("--verbose", options.verbose, "more lines: ranks, devices, plan")->excludes(quiet);
}

void add_backend_options(CLI::App& app, RunOptions& options) {
  add_backend_choice(app, options);
  add_choice<ReduceChoice>(app, "--comm", options.comm, {{"nccl", ReduceChoice::kNccl}, {"mpi", ReduceChoice::kMpi}},
                           "library of the all-reduce on GPUs");
  add_choice<KernelChoice>(app, "--kernel", options.kernel,
                           {{"auto", KernelChoice::kAuto},
                            {"strip", KernelChoice::kStrip},
                            {"scatter", KernelChoice::kScatter},
                            {"flash", KernelChoice::kFlash}},
                           "sketch kernel on GPUs; auto: the strip engine where it serves the sketch, else scatter; "
                           "flash: the kernel of the "
                           "blockperm paper, a baseline");
  app.add_option("--memory", options.memory_bytes,
                 "memory a rank may use on its backend, bytes or 500M (10^6), 2GiB (2^30); 0: what is free")
      ->transform(size_value())
      ->capture_default_str()
      ->type_name("SIZE");
}

void add_solve_options(CLI::App& app, SolveOptions& options) {
  add_input_options(app, options.input);
  app.add_option("-o,--output", options.output, "result file; default: <stem of the first FILE>.x.h5, beside it")
      ->type_name("X.h5");
  app.add_option("--report", options.report, "JSON report; - for standard output (progress then on standard error)")
      ->type_name("R.json");
  add_choice<SolveMethod>(
      app, "--method", options.method.method,
      {{"sketch-solve", SolveMethod::kSketchSolve}, {"refine", SolveMethod::kRefine}},
      "sketch-solve: one pass over A, x from the sketch; refine: passes over A until the backward error of x "
      "is certified");
  app.add_option_function<std::string>(
         "--tol",
         [&options](const std::string& text) { options.method.tolerance = text == "auto" ? 0 : std::stod(text); },
         "refine: backward error of the column-scaled problem relative to ||A||_F; auto: 1e-15 for float64 data, 1e-12 "
         "for "
         "narrower (default: auto)")
      ->type_name("auto|T")
      ->check(check_tolerance);
  app.add_option("--max-iters", options.method.max_passes, "refine: passes over A, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  add_sketch_options(app, options.sketch);
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

void add_generate_options(CLI::App& app, GenerateOptions& options) {
  app.add_option("OUT", options.output, "HDF5 file to write: /A (m, n), /b (m), /x_true (n)")->required();
  const auto sizes = [&](const char* name, std::int64_t& target, const char* help) {
    return app.add_option(name, target, help)->transform(size_value())->capture_default_str();
  };
  sizes("--rows", options.rows, "m")->required()->type_name("M");
  sizes("--cols", options.cols, "n")->required()->type_name("N");
  add_choice<std::string>(app, "--kind", options.kind,
                          {{"gaussian", "gaussian"},
                           {"coherent", "coherent"},
                           {"coordinate", "coordinate"},
                           {"lowrank", "lowrank"},
                           {"illcond", "illcond"}},
                          "gaussian N(0,1) entries; coherent: identity head, tail of scale 1e-3, rows permuted; "
                          "coordinate: identity over zeros; lowrank: --rank plus 1e-5 noise; illcond: --cond");
  app.add_option("--cond", options.cond, "condition number of kind illcond")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e15))
      ->check(check_finite);
  sizes("--rank", options.rank, "rank of kind lowrank")->check(CLI::PositiveNumber);
  app.add_option("--noise", options.noise, "standard deviation of b - A x_true, per entry")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e30))
      ->check(check_finite);
  app.add_option("--seed", options.seed, "seed of the data, 64 bits")->capture_default_str()->check(check_seed);
  add_choice<std::string>(app, "--dtype", options.dtype, {{"f4", "f4"}, {"f8", "f8"}, {"f2", "f2"}},
                          "type of A; b is f8 with f8, else f4");
  app.add_option("--shards", options.shards, "number of files, of about equal rows: OUT.000.h5, OUT.001.h5, ...")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  add_run_options(app, options.run);
}

void add_inspect_options(CLI::App& app, InspectOptions& options) {
  add_input_options(app, options.input);
  add_sketch_options(app, options.sketch);
  app.add_option("--ranks", options.ranks, "ranks to plan for; 0: as many as run now")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

void add_bench_sketch_options(CLI::App& app, BenchSketchOptions& options) {
  add_bench_sizes(app, options);
  add_list<BenchFamily>(
      app, "--family", options.family,
      {{"sparsestack", BenchFamily::kSparseStack},
       {"blockperm", BenchFamily::kBlockPerm},
       {"flashblockrow", BenchFamily::kFlashBlockRow}},
      "sparsestack, blockperm, flashblockrow: a list; flashblockrow samples rows of A: fast, but not an "
      "embedding, as columns of S may be empty (default: sparsestack)");
  add_list<SketchHash>(app, "--hash", options.hash,
                       {{"permuted", SketchHash::kPermuted}, {"independent", SketchHash::kIndependent}},
                       "permuted, independent: a list (default: permuted)");
  add_numbers(app, "--zeta", options.zeta, "sparsestack: nonzeros of S in every column, a list", kMaxZeta);
  add_numbers(app, "--kappa", options.kappa,
              "blockperm, flashblockrow: blocks that meet in one, a list (default: 2, or the number of blocks)",
              kMaxZeta);
  add_numbers(app, "--block-nnz", options.block_nnz,
              "blockperm: nonzeros of S in every column of a block; flashblockrow: in every row; a list", kMaxZeta);
  add_numbers(app, "--block-rows", options.block_rows, "blockperm: sketch rows of a block, a list", kMaxDealRows);
  add_list<InputBlocks>(app, "--input-blocks", options.input_blocks,
                        {{"interleaved", InputBlocks::kInterleaved}, {"contiguous", InputBlocks::kContiguous}},
                        "blockperm: interleaved, contiguous: a list (default: interleaved)");
  add_list<SketchPrecision>(app, "--precision", options.precision,
                            {{"fp32", SketchPrecision::kFp32},
                             {"fp16", SketchPrecision::kFp16},
                             {"bf16", SketchPrecision::kBf16},
                             {"fp64", SketchPrecision::kFp64}},
                            "fp32, fp16, bf16, fp64: a list (default: fp32)");
  add_list<SketchRounding>(
      app, "--rounding", options.rounding,
      {{"nearest", SketchRounding::kNearest},
       {"stochastic", SketchRounding::kStochastic},
       {"dither", SketchRounding::kDither}},
      "nearest, stochastic, dither: a list, of which fp32 and fp64 take nearest only (default: nearest)");
  add_list<BenchKernel>(app, "--kernel", options.kernel,
                        {{"auto", BenchKernel::kAuto},
                         {"strip", BenchKernel::kStrip},
                         {"scatter", BenchKernel::kScatter},
                         {"flash", BenchKernel::kFlash},
                         {"spmm", BenchKernel::kSpmm},
                         {"gaussian", BenchKernel::kGaussian}},
                        "GPU kernels auto, strip, scatter, flash; spmm: the same S by cuSPARSE; gaussian: a dense S of "
                        "the same d by cuBLAS; a list (default: auto)");
  add_list<ElementType>(app, "--dtype", options.dtype,
                        {{"f4", ElementType::kFloat32},
                         {"f2", ElementType::kFloat16},
                         {"bf2", ElementType::kBfloat16},
                         {"f8", ElementType::kFloat64}},
                        "type of A in memory f4, f2, bf2, f8 (for --precision fp64): a list (default: f4)");
  app.add_option("--rhs", options.rhs, "columns of b that are sketched along; the floor stays that of A")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  app.add_option("--repeats", options.repeats, "timed runs of each shape; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  add_backend_choice(app, options.run);
  add_run_options(app, options.run);
}

void add_bench_passes_options(CLI::App& app, BenchPassesOptions& options) {
  add_numbers(app, "--cols", options.cols, "n, a list", std::int64_t{1} << 24);
  app.add_option("--bytes", options.bytes, "size of A; m = bytes / (n elements)")
      ->transform(size_value())
      ->capture_default_str();
  add_numbers(app, "--rhs", options.rhs, "r, columns of b, a list; the floor stays that of A", 1024);
  add_list<ElementType>(app, "--dtype", options.dtype,
                        {{"f4", ElementType::kFloat32},
                         {"f8", ElementType::kFloat64},
                         {"f2", ElementType::kFloat16},
                         {"bf2", ElementType::kBfloat16}},
                        "type of A in memory f4, f8, f2, bf2: a list (default: f4)");
  app.add_option("--repeats", options.repeats, "timed runs of each shape; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
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
      ->check(check_finite)
      ->check(CLI::Range(0.0, 1.0));
  add_list<HeadRows>(app, "--head", options.head, {{"first", HeadRows::kFirst}, {"random", HeadRows::kRandom}},
                     "which rows are the head, first, random: a list (default: first,random)");
  app.add_option("--data-seed", options.data_seed, "seed of U, 64 bits")->capture_default_str()->check(check_seed);
  app.add_option("--oversample", options.oversample, "d / n, a list; d is rounded up as in solve")
      ->delimiter(',')
      ->capture_default_str()
      ->check(check_ratio);
  add_list<SketchFamily>(app, "--sketch", options.family,
                         {{"sparsestack", SketchFamily::kSparseStack}, {"blockperm", SketchFamily::kBlockPerm}},
                         "sparsestack, blockperm: a list (default: sparsestack,blockperm)");
  add_list<SketchHash>(app, "--hash", options.hash,
                       {{"permuted", SketchHash::kPermuted}, {"independent", SketchHash::kIndependent}},
                       "permuted, independent: a list (default: permuted,independent)");
  const auto counts = [&](const char* name, std::vector<int>& target, const char* help) {
    return app.add_option(name, target, help)->delimiter(',')->check(CLI::Range(1, kMaxZeta))->type_name("LIST");
  };
  counts("--zeta", options.zeta, "sparsestack: nonzeros of S in every column, a list")->capture_default_str();
  counts("--kappa", options.kappa,
         "blockperm: blocks of the sketch that every row goes to, a list (default: 2, or the number of blocks)");
  add_block_options(app, options.block_nnz, options.block_rows);
  add_list<InputBlocks>(app, "--input-blocks", options.input_blocks,
                        {{"interleaved", InputBlocks::kInterleaved}, {"contiguous", InputBlocks::kContiguous}},
                        "blockperm: interleaved, contiguous: a list (default: interleaved)");
  add_list<SketchPrecision>(app, "--precision", options.precision,
                            {{"fp32", SketchPrecision::kFp32},
                             {"fp16", SketchPrecision::kFp16},
                             {"bf16", SketchPrecision::kBf16},
                             {"fp64", SketchPrecision::kFp64}},
                            "fp32, fp16, bf16, fp64 (fp16 and bf16 on GPUs only): a list (default: fp32)");
  add_scaling_option(app, options.scaling);
  app.add_option("--seed", options.seed, "first seed of the sketches, 64 bits")
      ->capture_default_str()
      ->check(check_seed);
  app.add_option("--seeds", options.seeds, "sketches of each case: seed, seed + 1, ...")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_option("-o,--output", options.output, "CSV file (default: standard output)")->type_name("X.csv");
  add_backend_options(app, options.run);
  add_run_options(app, options.run);
}

const char* to_word(SketchHash hash) { return hash == SketchHash::kPermuted ? "permuted" : "independent"; }
const char* to_word(SketchPrecision precision) {
  switch (precision) {
    case SketchPrecision::kFp32: return "fp32";
    case SketchPrecision::kFp16: return "fp16";
    case SketchPrecision::kBf16: return "bf16";
    case SketchPrecision::kFp64: return "fp64";
  }
  return "";
}
const char* to_word(SketchRounding rounding) {
  if (rounding == SketchRounding::kNearest) return "nearest";
  return rounding == SketchRounding::kStochastic ? "stochastic" : "dither";
}
const char* to_word(ReducePrecision reduce) { return reduce == ReducePrecision::kFp32 ? "fp32" : "fp16"; }
const char* to_word(SolveMethod method) { return method == SolveMethod::kRefine ? "refine" : "sketch-solve"; }
const char* to_word(ScalingChoice scaling) { return scaling == ScalingChoice::kAuto ? "auto" : "none"; }
const char* to_word(HeadRows head) { return head == HeadRows::kFirst ? "first" : "random"; }
const char* to_word(SketchFamily family) { return family == SketchFamily::kSparseStack ? "sparsestack" : "blockperm"; }
const char* to_word(InputBlocks blocks) { return blocks == InputBlocks::kInterleaved ? "interleaved" : "contiguous"; }
const char* to_word(KernelChoice kernel) {
  switch (kernel) {
    case KernelChoice::kAuto: return "auto";
    case KernelChoice::kStrip: return "strip";
    case KernelChoice::kScatter: return "scatter";
    case KernelChoice::kFlash: return "flash";
  }
  return "";
}
const char* to_word(BenchFamily family) {
  switch (family) {
    case BenchFamily::kSparseStack: return "sparsestack";
    case BenchFamily::kBlockPerm: return "blockperm";
    case BenchFamily::kFlashBlockRow: return "flashblockrow";
  }
  return "";
}
const char* to_word(BenchKernel kernel) {
  switch (kernel) {
    case BenchKernel::kAuto: return "auto";
    case BenchKernel::kStrip: return "strip";
    case BenchKernel::kScatter: return "scatter";
    case BenchKernel::kFlash: return "flash";
    case BenchKernel::kSpmm: return "spmm";
    case BenchKernel::kGaussian: return "gaussian";
  }
  return "";
}

}  // namespace tallsketch
