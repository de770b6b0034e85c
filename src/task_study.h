// The tasks of paper B by one kind of sketch, seed after seed; dense Gaussian sketches and FlashBlockRow beside those that a
// backend makes. Called by drivers/study_coherence and its tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/sketch_tasks.h"
#include "src/sketch_timing.h"
#include "src/task_rows.h"

namespace tallsketch {

class Backend;
class Communicator;

/// Errors of each seed that did the task, in the order of seeds.
struct TaskResult {
  std::vector<double> gram, ose, ridge, solve;
  int seeds = 0;
  // BlockPerm, and only where asked for.
  std::optional<double> block_coherence;
  std::vector<double> neighbourhood_coherence;  // per seed: the wiring is drawn from it
};

struct TaskStudyOptions {
  int seeds = 10;
  double lambda = 1e-3;
  bool coherence = true;        // of BlockPerm's blocks, which costs O(M n^3) a seed
  std::int64_t chunk_rows = 0;  // uploaded at a time; 0: chosen
};

/// Sketches [A | Q | b] by seeds sketch.spec.seed, + 1, ... Collective. Returns the result on rank 0.
/// sketch  its kernel counts only where it is kGaussian: S is the same by every other
TaskResult study_tasks(const SketchCase& sketch, const TaskStudyOptions& options, TaskRows& rows, Backend& backend,
                       const Communicator& comm);

/// S [A | Q | b] of a dense S with entries N(0, 1/d), (d, 2 n + 1) row-major. No S is made: [A | Q | b] = W T with
/// orthonormal W, (m, n + 1), and S W has entries N(0, 1/d) whatever W is.
/// triangle  T of [A | b]; that of Q is the unit matrix
SketchedTasks gaussian_tasks(const std::vector<double>& triangle, std::int64_t n, std::int64_t d, std::uint64_t seed);

/// The same of FlashBlockRow's S, which is no embedding (kernels/block_row.h).
/// spec  d, kappa, block_nnz and seed count. Order: of samples, in FP64
SketchedTasks block_row_tasks(const SketchSpec& spec, TaskRows& rows);

}  // namespace tallsketch
