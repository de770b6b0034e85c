#include "src/geometry_study.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "src/backend.h"
#include "src/communicator.h"
#include "src/sketch_geometry.h"
#include "src/sketch_identity.h"
#include "src/spread.h"
#include "src/whole_sketch.h"

namespace tallsketch {

namespace {

void add_seed(const SketchGeometry& geometry, GeometryResult& result) {
  result.distortion.push_back(geometry.distortion());
  result.length_distortion.push_back(geometry.length_distortion());
  result.smallest.push_back(geometry.smallest);
  result.rank_losses += geometry.loses_rank() ? 1 : 0;
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
    const std::vector<double> sketch = whole_sketch(backend, spec, options.scaling, chunk_rows, basis, comm);
    comm.together([&] {
      if (!comm.is_root()) return;
      const double scale = 1 / std::sqrt(static_cast<double>(spec.zeta));
      add_seed(measure_geometry(sketch, spec.d, shape.n, shape.n + shape.r, scale), result);
      if (coherence) result.neighbourhood_coherence.push_back(coherence->of_neighbourhoods(spec));
    });
  }
  return result;
}

GeometryResult study_gaussian(std::int64_t d, std::int64_t n, std::uint64_t first_seed, int seeds) {
  GeometryResult result;
  result.spec.d = d;
  result.spec.seed = first_seed;
  for (int k = 0; k < seeds; ++k) {
    add_seed(gaussian_geometry(d, n, first_seed + static_cast<std::uint64_t>(k)), result);
  }
  return result;
}

PrecisionGap precision_gap(const std::vector<double>& narrow, const std::vector<double>& wide) {
  assert(narrow.size() == wide.size());
  std::vector<double> differences;
  PrecisionGap gap;
  for (std::size_t k = 0; k < narrow.size(); ++k) {
    differences.push_back(narrow[k] - wide[k]);
    gap.largest = std::max(gap.largest, std::fabs(differences.back()));
  }
  gap.median = spread_of(differences).median;
  return gap;
}

}  // namespace tallsketch
