#include "src/geometry_study.h"

#include <cmath>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/row_pass.h"
#include "src/sketch_geometry.h"
#include "src/sketch_identity.h"

namespace tallsketch {

namespace {

/// S U, unscaled, (d, n + r) row-major on every rank. Collective.
std::vector<double> sketch_by(Backend& backend, const SketchSpec& spec, ScalingChoice scaling, std::int64_t chunk_rows,
                              RowSource& basis, const Communicator& comm) {
  const ProblemShape& shape = basis.shape();
  PlanLimits limits;
  comm.together([&] { limits = backend.plan_limits({.spec = spec, .shape = shape}); });
  limits.chunk_rows = chunk_rows;
  limits.memory_bytes = comm.min(limits.memory_bytes);
  comm.together([&] {
    const Plan plan = make_plan(shape, spec, comm.size(), limits);
    const RowRange mine = plan.rank_rows[static_cast<std::size_t>(comm.rank())];
    backend.begin({.spec = spec, .shape = shape, .plan = plan, .rows = mine, .scaling = scaling});
    for_each_chunk(mine, plan.chunk_rows, [&](RowRange rows) {
      ChunkBuffer& chunk = backend.next_buffer(rows);
      basis.read(rows, chunk.a, chunk.b);
      backend.upload(chunk);
    });
  });
  backend.exchange();
  comm.together([&] { backend.sketch(); });
  backend.reduce();
  std::vector<double> sketch;
  comm.together([&] { sketch = backend.sketch_copy(); });
  return sketch;
}

}  // namespace

GeometryResult study_geometry(const SketchOptions& options, int seeds, std::int64_t chunk_rows, CoherenceSweep& basis,
                              Backend& backend, const Communicator& comm) {
  const ProblemShape& shape = basis.shape();
  GeometryResult result;
  std::optional<BlockCoherence> coherence;
  comm.together([&] {
    result.spec = make_sketch_spec(shape, options);
    if (!comm.is_root()) return;
    result.largest_leverage = basis.largest_leverage();
    if (result.spec.family == SketchFamily::kBlockPerm) {
      coherence.emplace(basis, result.spec);
      result.block_coherence = coherence->of_blocks();
    }
  });
  for (int k = 0; k < seeds; ++k) {
    SketchOptions seeded = options;
    seeded.seed += static_cast<std::uint64_t>(k);
    const SketchSpec spec = make_sketch_spec(shape, seeded);
    const std::vector<double> sketch = sketch_by(backend, spec, options.scaling, chunk_rows, basis, comm);
    comm.together([&] {
      if (!comm.is_root()) return;
      const double scale = 1 / std::sqrt(static_cast<double>(spec.zeta));
      const SketchGeometry geometry = measure_geometry(sketch, spec.d, shape.n, shape.n + shape.r, scale);
      result.distortion.push_back(geometry.distortion());
      result.length_distortion.push_back(geometry.length_distortion());
      result.smallest.push_back(geometry.smallest);
      result.rank_losses += geometry.loses_rank() ? 1 : 0;
      if (coherence) result.neighbourhood_coherence.push_back(coherence->of_neighbourhoods(spec));
    });
  }
  return result;
}

}  // namespace tallsketch
