// The scaling model: what a solve takes on any number of ranks, step by step, from the costs of one rank's steps and of its
// links. Pure: no MPI, no device. docs/scaling.md has the same formulas, and how far they are from what was measured.
// Called by inspect --gpus.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/cost_model.h"
#include "src/link.h"
#include "src/problem_shape.h"
#include "src/residency.h"
#include "src/step_costs.h"

namespace tallsketch {

/// Nodes of `ranks_per_node` ranks each, the last perhaps fewer.
struct Cluster {
  int ranks_per_node = 8;
  Link device_link;           // between ranks of a node, for sketches: NVLink, or memory on the host
  Link host_link;             // the same for what MPI sends from host memory
  Link network;               // of a node, to others
  double reduce_start = 0;    // seconds of the all-reduce of sketches that no byte explains
  double file_rate = 0;       // bytes a second that a node reads
  double all_files_rate = 0;  // that all nodes read together; 0: no limit
  std::function<StepCosts(const ProblemShape&, std::int64_t rows)> steps;
};

/// What is solved, and how: the plan and route of a solve.
struct ScalingJob {
  ProblemShape shape;
  Compression compression = Compression::kSketch;
  std::int64_t d = 0;
  std::int64_t batch_rows = 1;     // ranks have whole batches
  std::int64_t reduced_bytes = 4;  // of an element of the all-reduce
  bool by_qr = false;              // otherwise the sketch is factored by Cholesky
  double passes = 0;               // of refinement
  Residency residency = Residency::kDevice;
  bool read = false;  // rows are there already: nothing is read and uploaded first, but for rows in files

  std::int64_t sketch_rows() const { return compression == Compression::kGram ? shape.n + shape.r : d; }
};

/// In the order of a run. What reads, uploads and computes at a time is three steps, of which the longest counts.
enum class Step {
  kLock,
  kRead,
  kUpload,
  kCompress,
  kReduce,
  kFactor,
  kPassRead,
  kPassUpload,
  kPassCompute,
  kPassMessages,
  kPassRoot,
};
inline constexpr int kSteps = 11;

/// "read A", "factor on rank 0"
const char* to_word(Step step);

struct Prediction {
  int ranks = 1, nodes = 1;
  std::int64_t rows = 0;                 // of the busiest rank
  std::int64_t idle = 0;                 // ranks without rows
  std::array<double, kSteps> seconds{};  // of each step by itself
  std::array<bool, kSteps> counts{};     // not hidden behind a longer one
  double of(Step step) const { return seconds[static_cast<std::size_t>(step)]; }
  bool is_counted(Step step) const { return counts[static_cast<std::size_t>(step)]; }
  double total() const;
  /// The longest of the steps that count.
  Step bottleneck() const;
};

/// Seconds of an all-reduce, and of a broadcast, over `ranks` equal ones: 2 ceil(log2 p) latencies and 2 (p - 1) / p of the
/// bytes (Rabenseifner's algorithm; rings and double trees send as many, but a ring has 2 (p - 1) latencies: not measured);
/// ceil(log2 p) messages (binomial tree).
/// Source: Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, 2005
double all_reduce_seconds(std::int64_t ranks, double bytes, const Link& link);
double broadcast_seconds(std::int64_t ranks, double bytes, const Link& link);

/// Bytes a second of files that each of `ranks` reads: its share of its node's, or of all together.
double rank_file_rate(const Cluster& cluster, int ranks);

/// ranks  >= 1
Prediction predict(const ScalingJob& job, const Cluster& cluster, int ranks);

/// T(p0) p0 / (T(p) p): the same problem on more ranks.
double strong_efficiency(const Prediction& fewest, const Prediction& now);
/// T(p0) / T(p) with the rows a rank that the busiest rank of p has: p0 is one rank, or for several nodes one node.
int weak_base(const Cluster& cluster, int ranks);
double weak_efficiency(const ScalingJob& job, const Cluster& cluster, int ranks);

/// Where another step becomes the longest, for growing x.
struct Takeover {
  std::int64_t from = 0;
  Step step = Step::kRead;
};
/// From `first` to `last`, by doubling and bisection: changes that are undone between two doublings are not seen.
std::vector<Takeover> takeovers(std::int64_t first, std::int64_t last,
                                const std::function<Step(std::int64_t x)>& bottleneck_at);

}  // namespace tallsketch
