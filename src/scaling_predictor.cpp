#include "src/scaling_predictor.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/gpu_planner.h"
#include "src/gpu_solve_costs.h"
#include "src/host_backend.h"
#include "src/host_memory.h"
#include "src/host_solve_costs.h"
#include "src/host_threads.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/text.h"

namespace tallsketch {

namespace {

constexpr int kNodeRanks = 8;      // where nobody says how many nodes there are
constexpr int kMostRanks = 16384;  // that takeovers are looked for up to
constexpr std::int64_t kMostColumns = 16384;

void check_memory(const GpuModel& gpu, std::uint64_t asked) {
  constexpr std::int64_t kMiB = 1 << 20;
  const std::int64_t usable = GpuPlanner::usable_memory(gpu);
  require(asked <= static_cast<std::uint64_t>(usable), ErrorKind::kUsage,
          fmt::format("--memory {}: a rank of --gpus {} has {}, of which {} are left for a solve; give at most "
                      "--memory {}MiB, or leave it out",
                      asked, gpu.word, bytes_text(static_cast<std::int64_t>(gpu.memory)), bytes_text(usable),
                      usable / kMiB));
}

/// The host backend on a node that more ranks share than run here.
class SharedHost final : public Planner {
 public:
  /// memory_bytes  of a rank, where --memory does not say it
  SharedHost(Planner& host, std::int64_t memory_bytes) : host_(host), memory_bytes_(memory_bytes) {}
  PlanLimits plan_limits(const SketchJob& job) override {
    PlanLimits limits = host_.plan_limits(job);
    const bool is_own = limits.memory_bound == MemoryBound::kAsked ||
                        (limits.memory_bound == MemoryBound::kAddressSpace && limits.memory_bytes < memory_bytes_);
    if (is_own) return limits;
    limits.memory_bytes = memory_bytes_;
    limits.memory_bound = MemoryBound::kFree;
    return limits;
  }
  SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const override {
    return host_.solve_costs(shape, rows, place);
  }

 private:
  Planner& host_;
  std::int64_t memory_bytes_;
};

/// d of n columns, with the d / n of a job.
std::int64_t rows_with_columns(const ScalingJob& job, std::int64_t n) { return divide_up(job.d * n, job.shape.n); }

}  // namespace

int largest_ranks(const InspectOptions& options, const Communicator& comm) {
  const int most = *std::max_element(options.ranks.begin(), options.ranks.end());
  return most > 0 ? most : comm.size();
}

Cluster cluster_of(const ClusterOptions& options, const GpuModel* gpu, int largest) {
  Cluster cluster;
  cluster.ranks_per_node = options.nodes > 0 ? static_cast<int>(divide_up(largest, options.nodes)) : kNodeRanks;
  cluster.device_link = gpu == nullptr ? kNodeMessages : gpu->link;
  cluster.host_link = kNodeMessages;
  cluster.network = {options.net_latency_us * 1e-6, options.net_gb_per_s * 1e9};
  cluster.reduce_start = gpu == nullptr ? 0 : gpu->reduce_start;
  cluster.file_rate = options.file_gb_per_s * 1e9;
  cluster.all_files_rate = options.all_files_gb_per_s * 1e9;
  return cluster;
}

ScalingJob scaling_job(const MethodOptions& method, const SketchJob& job) {
  const ReducedSolverChoice solver = method.reduced_solver;
  const bool gram = job.compression == Compression::kGram, fp64 = job.accumulates() == SketchPrecision::kFp64;
  ScalingJob scaling;
  scaling.shape = job.shape;
  scaling.compression = job.compression;
  scaling.d = job.spec.d;
  scaling.batch_rows = job.spec.batch_rows;
  scaling.reduced_bytes = fp64 ? 8 : job.reduce == ReducePrecision::kFp16 ? 2 : 4;
  scaling.by_qr = !gram && (solver == ReducedSolverChoice::kQr || solver == ReducedSolverChoice::kSvd ||
                            (solver == ReducedSolverChoice::kAuto && fp64));
  scaling.passes = refinement_passes(method, job);
  scaling.residency = job.plan.residency;
  return scaling;
}

ScalingPredictor::ScalingPredictor(const InspectOptions& options, const RowSource& source, const Communicator& comm)
    : options_(options),
      source_(source),
      comm_(comm),
      threads_(options.cluster.threads > 0 ? options.cluster.threads : host_threads(comm)),
      method_(options.method) {
  method_.tolerance = tolerance_for(method_, source.shape().a_type);
  comm.broadcast(&threads_, sizeof threads_);  // all ranks must predict the same
  if (options.cluster.gpus == "host") {
    host_ = make_host_backend(options.run, comm, timer_, threads_);
    node_memory_ = comm.min(free_host_memory().bytes);
  } else {
    comm.together([&] {
      gpu_ = &gpu_model(options.cluster.gpus);
      check_memory(*gpu_, options.run.memory_bytes);
    });
  }
  cluster_ = cluster_of(options.cluster, gpu_, largest_ranks(options, comm));
  cluster_.steps = [gpu = gpu_, threads = threads_](const ProblemShape& shape, std::int64_t rows) {
    return gpu == nullptr ? host_step_costs(kQuietHost, shape, rows, threads) : gpu_step_costs(*gpu, shape, rows);
  };
}

PredictedRun ScalingPredictor::planned(int ranks, Planner& planner) const {
  Progress silent(nullptr);
  const Attempt attempt = first_attempt(options_.sketch, method_, source_, ranks, false, planner, comm_, silent);
  PredictedRun run;
  run.job = planned_job(attempt, method_, options_.run.chunk_rows, nullptr, source_, ranks, planner, comm_);
  run.scaling = scaling_job(method_, run.job);
  run.prediction = predict(run.scaling, cluster_, ranks);
  run.job.plan.rank_rows.resize(1);  // the busiest rank's
  return run;
}

const PredictedRun& ScalingPredictor::at(int ranks) {
  const auto known = runs_.find(ranks);
  if (known != runs_.end()) return known->second;
  if (host_ != nullptr) {
    SharedHost host(*host_, usable(node_memory_ / std::min(ranks, cluster_.ranks_per_node)));
    return runs_.emplace(ranks, planned(ranks, host)).first->second;
  }
  GpuModel gpu = *gpu_;
  gpu.file_rate = rank_file_rate(cluster_, ranks);  // routes are compared by the files that the prediction has
  GpuPlanner planner(gpu, options_.run.residency, options_.run.memory_bytes);
  return runs_.emplace(ranks, planned(ranks, planner)).first->second;
}

bool ScalingPredictor::is_own_choice(const PredictedRun& run) const {
  if (host_ != nullptr) return true;
  GpuPlanner planner(*gpu_, options_.run.residency, options_.run.memory_bytes);
  try {
    return planned(run.prediction.ranks, planner).scaling.compression == run.scaling.compression;
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kMemory) throw;
    return false;  // the one that solve would take has no room
  }
}

std::string ScalingPredictor::misfit(int ranks) {
  try {
    at(ranks);
    return "";
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kMemory) throw;
    const std::string text = e.what();
    return text.substr(0, text.find(" [rank "));  // the rank that said so: all would
  }
}

bool ScalingPredictor::is_like(int ranks, Residency place) {
  return misfit(ranks).empty() && at(ranks).job.plan.residency == place;
}

const PredictedRun& ScalingPredictor::base_of(const PredictedRun& run) {
  int none = 0, some = run.prediction.ranks;
  while (some - none > 1) {
    const int middle = none + (some - none) / 2;
    (is_like(middle, run.job.plan.residency) ? some : none) = middle;
  }
  return at(some);
}

int ScalingPredictor::first_kept(int from) {
  const auto keeps = [&](int ranks) { return misfit(ranks).empty() && !is_like(ranks, Residency::kFile); };
  if (keeps(from)) return from;
  int none = from, some = std::max(kMostRanks, from);
  if (!keeps(some)) return 0;
  while (some - none > 1) {
    const int middle = none + (some - none) / 2;
    (keeps(middle) ? some : none) = middle;
  }
  return some;
}

double ScalingPredictor::strong(const PredictedRun& run) {
  return strong_efficiency(base_of(run).prediction, run.prediction);
}

double ScalingPredictor::weak(const PredictedRun& run) const {
  return weak_efficiency(run.scaling, cluster_, run.prediction.ranks);
}

std::vector<Takeover> ScalingPredictor::takeovers_of_ranks(int from, Start start) {
  Cluster cluster = cluster_;
  if (start == Start::kInstantFiles) {
    cluster.file_rate = std::numeric_limits<double>::infinity();
    cluster.all_files_rate = 0;
  }
  return takeovers(from, std::max(kMostRanks, from), [&](std::int64_t ranks) {
    ScalingJob job = at(static_cast<int>(ranks)).scaling;
    job.read = start == Start::kInPlace;
    return predict(job, cluster, static_cast<int>(ranks)).bottleneck();
  });
}

std::int64_t ScalingPredictor::most_columns(const PredictedRun& run) {
  const ScalingJob& job = run.scaling;
  std::int64_t most = std::min(kMostColumns, job.shape.m);
  while (job.compression == Compression::kSketch && most > 0 && rows_with_columns(job, most) > job.shape.m) --most;
  return most;
}

std::vector<Takeover> ScalingPredictor::takeovers_of_columns(const PredictedRun& run) const {
  const std::int64_t most = most_columns(run);
  if (most < kFewestColumns) return {};
  return takeovers(kFewestColumns, most, [&](std::int64_t n) {
    ScalingJob job = run.scaling;
    job.read = true;
    job.shape.n = n;
    job.d = rows_with_columns(run.scaling, n);
    return predict(job, cluster_, run.prediction.ranks).bottleneck();
  });
}

AskedFor ScalingPredictor::asked() const {
  return {options_.run.residency, options_.run.memory_bytes > 0, source_.info().io_mode.starts_with("direct")};
}

std::string ScalingPredictor::machine_text() const {
  if (gpu_ == nullptr) {
    const std::string memory = options_.run.memory_bytes > 0
                                   ? ""
                                   : fmt::format(", {} of memory a node, as is free here", bytes_text(node_memory_));
    return fmt::format("host backend, {} thread{} a rank{}", threads_, plural(threads_), memory);
  }
  return fmt::format("{}, {}", gpu_->word, gpu_->source);
}

}  // namespace tallsketch
