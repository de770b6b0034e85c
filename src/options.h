// Options: the command line as plain data, and the one place that declares its flags (CLI11).
// drivers/ own the CLI::App; a new flag is added here, with its default, unit and help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sketch_spec.h"
#include "kernels/views.h"
#include "src/choices.h"
#include "src/synthetic_problem.h"

namespace CLI {
class App;
}

namespace tallsketch {

/// A dataset inside a file, from a command line; parse_dataset_name says which part is filled when.
struct DatasetName {
  std::string file;
  std::string dataset;
};

/// "FILE:/name" fills both; anything else, "/name" too, is taken as the file, and the dataset stays empty.
DatasetName parse_dataset_name(const std::string& text);

struct InputOptions {
  std::vector<std::string> files;  // each FILE or FILE:/name
  std::string a = "/A";
  std::string b = "/b";
  bool transpose = false;  // A is stored (n, m)
  IoChoice io = IoChoice::kAuto;
  DataPrecision data_precision = DataPrecision::kStored;
  std::string probe_program = {};  // that opens HDF5 files first (hdf5_probe); empty: none does
  bool may_be_wide = false;        // m < n is no error: these are some rows of a larger matrix
};

struct SketchOptions {
  SketchFamily family = SketchFamily::kSparseStack;
  SketchHash hash = SketchHash::kPermuted;
  SketchPrecision precision = SketchPrecision::kFp32;
  SketchRounding rounding = SketchRounding::kNearest;
  ScalingChoice scaling = ScalingChoice::kAuto;
  ReducePrecision reduce = ReducePrecision::kFp32;
  // Of one family each; make_sketch_spec knows the defaults, and refuses those of the other family.
  std::optional<int> zeta;
  std::optional<int> kappa, block_nnz;
  std::optional<std::int64_t> block_rows;
  std::optional<InputBlocks> input_blocks;
  double oversample = 0;         // d / n; 0: auto
  std::int64_t sketch_rows = 0;  // d; 0: from oversample
  bool may_be_short = false;     // no flag: d <= n is no error, because nothing is solved with the sketch, or d says so
  // Rows of the sketch that x is not made from, so that they can judge it; they come on top of d. Nothing: the solver's
  // choice for the method.
  std::optional<std::int64_t> check_rows;
  std::uint64_t seed = 0;
  std::vector<std::string> given;  // names of those options above that the command line has, "--zeta"
};

struct RunOptions {
  BackendChoice backend = BackendChoice::kAuto;
  ReduceChoice comm = ReduceChoice::kNccl;
  KernelChoice kernel = KernelChoice::kAuto;
  ResidencyChoice residency = ResidencyChoice::kAuto;
  std::uint64_t memory_bytes = 0;  // per rank; 0: what is free
  std::uint64_t chunk_rows = 0;    // 0: chosen by the plan
  double timeout = 600;            // seconds
  bool ignore_launcher = false;
  bool emulate_half = false;  // studies: 16-bit sketches on the host backend too, slowly
  bool quiet = false;
  bool verbose = false;
};

/// When a run saves itself.
struct CheckpointOptions {
  std::string path;    // empty: never
  double every = 300;  // seconds; 0: at every chunk
  bool resume = false;
};

/// What becomes of the sketch.
struct MethodOptions {
  SolveMethod method = SolveMethod::kRefine;
  double tolerance = 0;           // of the backward error; 0: by the type of A
  std::int64_t max_passes = 200;  // over A, by refine
  double ridge = 0;               // lambda: minimises ||A x - b||^2 + lambda ||x||^2
  PreconditionerChoice preconditioner = PreconditionerChoice::kAuto;
  ReducedSolverChoice reduced_solver = ReducedSolverChoice::kAuto;
  RankPolicy rank_policy = RankPolicy::kError;
  bool standard_errors = false;
};

struct SolveOptions {
  InputOptions input;
  SyntheticProblem synthetic;  // instead of files
  SketchOptions sketch;
  RunOptions run;
  std::string output;  // empty: <stem of the first FILE>.x.h5, or synthetic.x.h5
  std::string report;  // empty: none; "-": standard output
  MethodOptions method;
  CheckpointOptions checkpoint;
  std::string from_sketch;  // file of a sketch that is made already; files may then be empty
  std::string command_line;
};

struct SketchFileOptions {
  InputOptions input;
  SyntheticProblem synthetic;  // instead of files
  std::string merge;           // file that the sketch files `input.files` are added into; empty: sketch those files
  std::optional<std::int64_t> first_row;  // of the files, in the matrix they are rows of; nothing: 0
  std::int64_t total_rows = 0;            // of that matrix; 0: not said
  CheckpointOptions checkpoint;
  SketchOptions sketch;
  RunOptions run;
  std::string output;  // empty: <stem of the first FILE>.sketch.h5
  std::string report;
  std::string command_line;
};

struct GenerateOptions {
  std::string output;
  SyntheticProblem problem;
  std::int64_t shards = 1;
  RunOptions run;
};

/// A cluster to predict for.
struct ClusterOptions {
  std::string gpus;  // a word of gpu_words(), or host; empty: nothing is predicted
  int nodes = 0;     // of the largest number of ranks; 0: nodes of 8 ranks
  int threads = 0;   // of a rank, gpus host; 0: as many as here
  // GB/s and microseconds. Of a node; of all files together, 0: as much as all nodes ask for.
  double net_gb_per_s = 50, net_latency_us = 5, file_gb_per_s = 10, all_files_gb_per_s = 0;
};

struct InspectOptions {
  InputOptions input;
  SyntheticProblem synthetic;  // instead of files
  MethodOptions method;
  SketchOptions sketch;
  RunOptions run;
  std::vector<int> ranks = {0};  // 0: as many as run; several only with gpus
  ClusterOptions cluster;
  bool json = false;
};

struct BenchSketchOptions {
  bool may_be_short = false;  // no flag: d <= n is no error
  // Lists: the grid is their product, as far as the combinations exist (src/sketch_grid.h).
  std::vector<std::int64_t> cols = {64, 256, 1024};
  std::uint64_t bytes = std::uint64_t{1} << 30;  // of A, per rank; unused where rows are given
  std::vector<std::int64_t> rows;
  std::vector<double> oversample = {2};  // unused where sketch_rows are given
  std::vector<std::int64_t> sketch_rows;
  std::vector<BenchFamily> family = {BenchFamily::kSparseStack};
  std::vector<SketchHash> hash = {SketchHash::kPermuted};
  std::vector<int> zeta = {4};
  std::vector<int> kappa;  // empty: the default of make_sketch_spec
  std::vector<int> block_nnz = {2};
  std::vector<std::int64_t> block_rows = {128};
  std::vector<InputBlocks> input_blocks = {InputBlocks::kInterleaved};
  std::vector<SketchPrecision> precision = {SketchPrecision::kFp32};
  std::vector<SketchRounding> rounding = {SketchRounding::kNearest};
  std::vector<BenchKernel> kernel = {BenchKernel::kAuto};
  std::vector<ElementType> dtype = {ElementType::kFloat32};  // of A
  std::int64_t rhs = 0;
  int repeats = 5;
  RunOptions run;
};

struct BenchSolveOptions {
  std::vector<std::int64_t> cols = {64, 256, 1024};
  std::uint64_t bytes = std::uint64_t{1} << 28;  // of A, per rank
  std::vector<std::int64_t> rhs = {1};
  std::vector<ElementType> dtype = {ElementType::kFloat32};
  std::vector<double> cond = {1e4};
  std::vector<double> residual = {1e-3};  // ||e|| / ||A x||
  std::vector<BenchRoute> route = {BenchRoute::kRefineSketch, BenchRoute::kRefineGram, BenchRoute::kSketchCholesky,
                                   BenchRoute::kSketchQr, BenchRoute::kNormalEquations};
  double tolerance = 0;   // 0: by the type of A
  double oversample = 0;  // 0: auto
  std::uint64_t seed = 0;
  int repeats = 3;
  RunOptions run;
};

struct BenchPassesOptions {
  std::vector<std::int64_t> cols = {256, 512, 1024};
  std::uint64_t bytes = std::uint64_t{1} << 30;  // of A
  std::vector<std::int64_t> rhs = {1};
  std::vector<ElementType> dtype = {ElementType::kFloat32};
  int repeats = 5;
  RunOptions run;
};

struct BenchReduceOptions {
  std::vector<std::int64_t> sketch_rows = {512, 2048, 8192};
  std::vector<std::int64_t> cols = {256, 1024};
  std::int64_t rhs = 1;
  std::vector<SketchPrecision> precision = {SketchPrecision::kFp32, SketchPrecision::kFp16};
  int repeats = 20;
  RunOptions run;
};

struct BenchIoOptions {
  InputOptions input;
  SyntheticProblem synthetic;  // instead of files
  int repeats = 3;
  RunOptions run;
};

/// The grid of study geometry: every combination of the lists that belongs to the sketch family.
struct StudyGeometryOptions {
  std::int64_t rows = 8192;
  std::int64_t cols = 128;
  std::vector<double> coherence = {0, 0.25, 0.5, 0.75, 1};
  std::vector<HeadRows> head = {HeadRows::kFirst, HeadRows::kRandom};
  std::uint64_t data_seed = 123;  // paper F's
  std::vector<double> oversample = {2, 4};
  std::vector<StudyFamily> family = {StudyFamily::kSparseStack, StudyFamily::kBlockPerm, StudyFamily::kGaussian};
  std::vector<SketchHash> hash = {SketchHash::kPermuted, SketchHash::kIndependent};
  std::vector<int> zeta = {1, 2, 4, 8};
  std::vector<int> kappa;  // empty: make_sketch_spec's choice
  std::vector<InputBlocks> input_blocks = {InputBlocks::kInterleaved, InputBlocks::kContiguous};
  std::optional<int> block_nnz;
  std::optional<std::int64_t> block_rows;
  std::vector<SketchPrecision> precision = {SketchPrecision::kFp32, SketchPrecision::kFp16};
  ScalingChoice scaling = ScalingChoice::kAuto;
  std::uint64_t seed = 0;  // the first of `seeds`
  int seeds = 10;
  std::string output;  // empty: standard output
  RunOptions run;
};

/// The grid of study lstsq: every combination of the lists.
struct StudyLstsqOptions {
  std::int64_t rows = 16384;
  std::int64_t cols = 64;
  std::vector<SystemKind> system = {SystemKind::kLowCoherence, SystemKind::kCoherent};
  std::uint64_t data_seed = 123;  // paper F's
  std::vector<double> ridge = {0};
  std::vector<double> oversample = {2, 4, 8, 16, 32};
  std::vector<int> zeta = {1, 2, 4, 8};
  std::vector<SketchHash> hash = {SketchHash::kPermuted, SketchHash::kIndependent};
  std::vector<SketchPrecision> precision = {SketchPrecision::kFp32, SketchPrecision::kFp16, SketchPrecision::kBf16};
  std::vector<SolveMethod> method = {SolveMethod::kSketchSolve, SolveMethod::kRefine};
  SketchRounding rounding = SketchRounding::kNearest;
  ScalingChoice scaling = ScalingChoice::kAuto;
  ReducedSolverChoice reduced_solver = ReducedSolverChoice::kAuto;
  std::uint64_t seed = 0;  // the first of `seeds`
  int seeds = 10;
  std::string output;  // empty: standard output
  RunOptions run;
};

/// The grid of study range: every combination of the lists, and an FP32 sketch beside each.
struct StudyRangeOptions {
  // Elements and bucket sums of the paper's size, a matrix of an eighth of its rows and columns.
  std::int64_t rows = 8192;
  std::int64_t cols = 32;
  std::vector<SystemKind> system = {SystemKind::kLowCoherence, SystemKind::kCoherent};
  std::uint64_t data_seed = 123;  // paper F's
  // Paper F names fourteen of its fifteen, or says that they did not fail; -6 is where the coherent tail vanishes.
  std::vector<int> power = {-40, -32, -24, -20, -16, -12, -8, -6, -4, 0, 4, 8, 12, 16, 20};
  std::vector<double> oversample = {2, 8};
  std::vector<int> zeta = {4};
  std::vector<SketchHash> hash = {SketchHash::kIndependent};  // paper F's
  std::vector<SketchPrecision> precision = {SketchPrecision::kFp16, SketchPrecision::kBf16};
  std::vector<SketchRounding> rounding = {SketchRounding::kNearest, SketchRounding::kStochastic,
                                          SketchRounding::kDither};
  std::vector<ScalingChoice> scaling = {ScalingChoice::kNone, ScalingChoice::kAuto};
  std::uint64_t seed = 0;  // the first of `seeds`
  int seeds = 10;
  std::string output;  // empty: standard output
  RunOptions run;
};

/// The grid of study coherence: every combination of the lists that exists.
struct StudyCoherenceOptions {
  std::vector<SyntheticKind> kind = {SyntheticKind::kGaussian, SyntheticKind::kLowRank, SyntheticKind::kCoherent,
                                     SyntheticKind::kCoordinate};
  std::int64_t rows = 8192;
  std::int64_t cols = 128;
  std::int64_t rank = 16;  // of kind lowrank
  double noise = 0.1;
  std::uint64_t data_seed = 123;
  std::vector<double> oversample = {2, 4, 8};  // unused where sketch_rows are given
  std::vector<std::int64_t> sketch_rows;       // may be n or fewer: then only some tasks are done
  std::vector<StudyFamily> family = {StudyFamily::kSparseStack, StudyFamily::kBlockPerm, StudyFamily::kFlashBlockRow,
                                     StudyFamily::kGaussian};
  std::vector<SketchHash> hash = {SketchHash::kPermuted};
  std::vector<int> zeta = {1, 2, 4, 8};
  std::vector<int> kappa = {1, 2, 4};
  std::vector<int> block_nnz = {1, 2, 4};
  std::vector<std::int64_t> block_rows = {32};
  std::vector<InputBlocks> input_blocks = {InputBlocks::kInterleaved, InputBlocks::kContiguous};
  std::vector<BenchKernel> kernel = {BenchKernel::kAuto};
  std::vector<StudyTask> task = {StudyTask::kGram, StudyTask::kOse, StudyTask::kRidge, StudyTask::kSolve};
  bool no_coherence = false;
  double ridge = 1e-3;     // paper B's
  std::uint64_t seed = 0;  // the first of `seeds`
  int seeds = 10;
  int repeats = 5;     // of the timings
  std::string output;  // empty: standard output
  RunOptions run;
};

void add_input_options(CLI::App& app, InputOptions& options);
/// FILEs, or --kind with what belongs to it; one of them is required.
void add_source_options(CLI::App& app, InputOptions& input, SyntheticProblem& synthetic);
void add_checkpoint_options(CLI::App& app, CheckpointOptions& options);
void add_method_options(CLI::App& app, MethodOptions& options);
void add_sketch_options(CLI::App& app, SketchOptions& options);
/// Launch, waiting and talking: every subcommand has these.
void add_run_options(CLI::App& app, RunOptions& options);
/// Where and in how much memory: for subcommands that compute with a backend.
void add_backend_options(CLI::App& app, RunOptions& options);
void add_solve_options(CLI::App& app, SolveOptions& options);
void add_sketch_file_options(CLI::App& app, SketchFileOptions& options);
void add_generate_options(CLI::App& app, GenerateOptions& options);
void add_inspect_options(CLI::App& app, InspectOptions& options);
void add_bench_sketch_options(CLI::App& app, BenchSketchOptions& options);
void add_bench_solve_options(CLI::App& app, BenchSolveOptions& options);
void add_bench_passes_options(CLI::App& app, BenchPassesOptions& options);
void add_bench_reduce_options(CLI::App& app, BenchReduceOptions& options);
void add_bench_io_options(CLI::App& app, BenchIoOptions& options);
void add_study_geometry_options(CLI::App& app, StudyGeometryOptions& options);
void add_study_lstsq_options(CLI::App& app, StudyLstsqOptions& options);
void add_study_range_options(CLI::App& app, StudyRangeOptions& options);
void add_study_coherence_options(CLI::App& app, StudyCoherenceOptions& options);

}  // namespace tallsketch
