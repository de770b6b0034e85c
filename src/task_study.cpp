#include "src/task_study.h"

#include <cmath>

#include <cblas.h>
#include <fmt/format.h>

#include "kernels/block_perm.h"
#include "kernels/block_row.h"
#include "kernels/signed_entry.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/normals.h"
#include "src/sketch_geometry.h"
#include "src/whole_sketch.h"

namespace tallsketch {

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

void add_errors(const TaskErrors& errors, TaskResult& result) {
  result.gram.push_back(errors.gram);
  result.ose.push_back(errors.ose);
  if (errors.ridge) result.ridge.push_back(*errors.ridge);
  if (errors.solve) result.solve.push_back(*errors.solve);
}

/// The spec with another seed, which BlockPerm's wiring follows.
SketchSpec with_seed(SketchSpec spec, std::uint64_t seed) {
  spec.seed = seed;
  if (spec.family == SketchFamily::kBlockPerm) spec.wiring = make_block_wiring(seed, block_count(spec));
  return spec;
}

/// mu_blk / kappa <= mu_nbr <= mu_blk, whatever A and the wiring (paper B, lemma A.9): a wiring that breaks it visits some
/// block twice.
void check_bounds(double of_blocks, double of_neighbourhoods, int kappa) {
  constexpr double kRounding = 1e-5;  // U is stored in FP32
  require(of_neighbourhoods <= of_blocks * (1 + kRounding) && of_neighbourhoods >= of_blocks / kappa * (1 - kRounding),
          ErrorKind::kInternal,
          fmt::format("neighbourhood coherence {} for kappa = {} lies outside its bounds, {} and {}", of_neighbourhoods,
                      kappa, of_blocks / kappa, of_blocks));
}

/// On every rank, as a backend makes it; on rank 0 alone where none does.
SketchedTasks sketched(const SketchCase& sketch, const SketchSpec& spec, const TaskStudyOptions& options,
                       TaskRows& rows, Backend& backend, const Communicator& comm) {
  SketchedTasks result;
  const bool gaussian = sketch.kernel == BenchKernel::kGaussian;
  if (gaussian || sketch.family == BenchFamily::kFlashBlockRow) {
    comm.together([&] {
      if (!comm.is_root()) return;
      result = gaussian ? gaussian_tasks(rows.triangle(), rows.n(), spec.d, spec.seed) : block_row_tasks(spec, rows);
    });
    return result;
  }
  result = {whole_sketch(backend, spec, ScalingChoice::kAuto, options.chunk_rows, rows, comm), spec.d, rows.n()};
  const double scale = 1 / std::sqrt(static_cast<double>(spec.zeta));
  for (double& value : result.values) value *= scale;
  return result;
}

}  // namespace

SketchedTasks gaussian_tasks(const std::vector<double>& triangle, std::int64_t n, std::int64_t d, std::uint64_t seed) {
  const std::int64_t width = n + 1;
  std::vector<double> dense(at(d * width));  // S W
  for (std::int64_t i = 0; i < d; ++i) normals(seed, i, DrawPurpose::kMatrixEntries, width, dense.data() + i * width);
  for (double& value : dense) value /= std::sqrt(static_cast<double>(d));
  std::vector<double> of_a_and_b(dense.size(), 0.0);
  const int rows = checked_int(d, "d"), cols = checked_int(width, "n");
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, cols, cols, 1.0, dense.data(), cols, triangle.data(),
              cols, 0.0, of_a_and_b.data(), cols);
  SketchedTasks sketch{{}, d, n};
  sketch.values.reserve(at(d * (2 * n + 1)));
  for (std::int64_t i = 0; i < d; ++i) {
    const double* const own = of_a_and_b.data() + i * width;
    sketch.values.insert(sketch.values.end(), own, own + n);
    sketch.values.insert(sketch.values.end(), dense.data() + i * width, dense.data() + i * width + n);
    sketch.values.push_back(own[n]);
  }
  return sketch;
}

SketchedTasks block_row_tasks(const SketchSpec& spec, TaskRows& rows) {
  const std::int64_t n = rows.n(), width = 2 * n + 1;
  const BlockRowSpec sampled{spec.seed, rows.shape().m, spec.d, spec.kappa, spec.block_nnz};
  SketchedTasks sketch{std::vector<double>(at(spec.d * width), 0.0), spec.d, n};
  std::vector<float> row(at(2 * n));
  const double scale = block_row_scale(sampled);
  for (std::int64_t i = 0; i < spec.d; ++i) {
    double* const out = sketch.values.data() + i * width;
    for (std::int32_t l = 0; l < spec.kappa; ++l) {
      const SampledBlock block = sampled_block(sampled, i / kBlockRowSize, l);
      for (std::int32_t u = 0; u < spec.block_nnz; ++u) {
        const std::uint32_t entry = sampled_row(sampled, i, l, u, block.rows);
        const std::int64_t from = block.first + entry_row(entry);
        double b = 0;
        rows.read({from, from + 1}, row.data(), &b);
        const double factor = with_sign(scale, entry);
        for (std::int64_t j = 0; j < 2 * n; ++j) out[j] += factor * row[at(j)];
        out[2 * n] += factor * b;
      }
    }
  }
  return sketch;
}

TaskResult study_tasks(const SketchCase& sketch, const TaskStudyOptions& options, TaskRows& rows, Backend& backend,
                       const Communicator& comm) {
  TaskResult result;
  result.seeds = options.seeds;
  const bool blocks =
      options.coherence && sketch.kernel != BenchKernel::kGaussian && sketch.family == BenchFamily::kBlockPerm;
  std::optional<BlockCoherence> coherence;
  comm.together([&] {
    if (!comm.is_root() || !blocks) return;
    coherence.emplace(rows.basis(), sketch.spec);
    result.block_coherence = coherence->of_blocks();
  });
  for (int k = 0; k < options.seeds; ++k) {
    const SketchSpec spec = with_seed(sketch.spec, sketch.spec.seed + static_cast<std::uint64_t>(k));
    const SketchedTasks tasks = sketched(sketch, spec, options, rows, backend, comm);
    comm.together([&] {
      if (!comm.is_root()) return;
      add_errors(task_errors(tasks, rows.triangle(), options.lambda), result);
      if (!coherence) return;
      result.neighbourhood_coherence.push_back(coherence->of_neighbourhoods(spec));
      check_bounds(*result.block_coherence, result.neighbourhood_coherence.back(), spec.kappa);
    });
  }
  return result;
}

}  // namespace tallsketch
