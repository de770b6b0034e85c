// ScalingPredictor: from the options of inspect --gpus to predictions. Plans the solve of any number of ranks as solve would
// (src/planning), but for the speed of files, on a machine that need not be here; asks the scaling model what it takes. Prints nothing, touches no
// device. Used by drivers/inspect_scaling.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/backend.h"
#include "src/gpu_model.h"
#include "src/options.h"
#include "src/row_source.h"
#include "src/scaling_advice.h"
#include "src/scaling_model.h"

namespace tallsketch {

class Communicator;

/// The largest number of ranks that is asked for; --ranks 0 are those that run.
int largest_ranks(const InspectOptions& options, const Communicator& comm);

/// The machine that options describe, but for its step costs.
/// gpu      null: the host backend
/// largest  ranks, which --nodes are divided into
Cluster cluster_of(const ClusterOptions& options, const GpuModel* gpu, int largest);

/// A job that is planned, for the scaling model. Pure.
/// method  with its tolerance
ScalingJob scaling_job(const MethodOptions& method, const SketchJob& job);

/// A solve on some number of ranks: its plan, and what it takes.
struct PredictedRun {
  SketchJob job;
  ScalingJob scaling;
  Prediction prediction;
};

class ScalingPredictor {
 public:
  /// Collective. The arguments must outlive it. Errors: kUsage for GPUs without figures, and for more memory than they have
  ScalingPredictor(const InspectOptions& options, const RowSource& source, const Communicator& comm);

  /// Collective, as all that may ask it for further ranks. Errors: kMemory
  const PredictedRun& at(int ranks);
  /// Why a solve does not fit on so many ranks; empty where it does. Collective.
  std::string misfit(int ranks);

  /// Whether solve takes the preconditioner of `run` by itself: it is not told how fast files are, and compares as if they
  /// were as gpu_model has them. Collective.
  bool is_own_choice(const PredictedRun& run) const;

  /// The run of the fewest ranks with their rows where those of `run` have them, by bisection. Collective.
  const PredictedRun& base_of(const PredictedRun& run);

  /// Against base_of, collective; and weak_efficiency.
  double strong(const PredictedRun& run);
  double weak(const PredictedRun& run) const;

  /// The fewest ranks, from `from` to 16384, whose rows stay in memory, by bisection; 0 where none do. Collective.
  int first_kept(int from);

  /// With files as they are; as if they took no time; or with A in its place already, which is memory.
  enum class Start { kFiles, kInstantFiles, kInPlace };
  /// Up to 16384 ranks. Collective.
  std::vector<Takeover> takeovers_of_ranks(int from, Start start);

  static constexpr std::int64_t kFewestColumns = 16;
  /// The most columns that takeovers are looked for: where the rows of the reduced problem, d or of a Gram matrix n, reach m,
  /// beyond which nothing is saved; at most 16384.
  static std::int64_t most_columns(const PredictedRun& run);
  /// For n from kFewestColumns to most_columns, with the m, ranks, residency and d / n of a run and A in its place already;
  /// empty where m is too small for kFewestColumns.
  std::vector<Takeover> takeovers_of_columns(const PredictedRun& run) const;

  const Cluster& cluster() const { return cluster_; }
  AskedFor asked() const;
  /// Of a rank of the host backend; 0: a rank is a GPU.
  int threads() const { return host_ == nullptr ? 0 : threads_; }
  /// "h200, measured on ..."
  std::string machine_text() const;

 private:
  PredictedRun planned(int ranks, Planner& planner) const;
  bool is_like(int ranks, Residency place);

  const InspectOptions& options_;
  const RowSource& source_;
  const Communicator& comm_;
  int threads_;  // of a rank of the host backend
  MethodOptions method_;
  PhaseTimer timer_;
  const GpuModel* gpu_ = nullptr;  // null: the host backend
  std::unique_ptr<Planner> host_;  // the host backend, or null
  std::int64_t node_memory_ = 0;   // of the host backend's nodes: what is free here
  Cluster cluster_;
  std::map<int, PredictedRun> runs_;
};

}  // namespace tallsketch
