// The geometry study of one case: a sketch of an orthonormal basis by a backend, seed after seed, and what it does to
// lengths. Called by drivers/study_geometry and by the statistics tests.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/sketch_spec.h"
#include "src/coherence_sweep.h"
#include "src/options.h"

namespace tallsketch {

class Backend;
class Communicator;

struct GeometryResult {
  SketchSpec spec;                        // of the first seed
  std::vector<double> distortion;         // per seed: max |sigma^2 - 1|
  std::vector<double> length_distortion;  // per seed: max |sigma - 1|
  std::vector<double> smallest;           // per seed: sigma_min
  int rank_losses = 0;                    // seeds whose sigma_min is below 1e-6
  double largest_leverage = 0;            // of U
  // BlockPerm only.
  std::optional<double> block_coherence;
  std::vector<double> neighbourhood_coherence;  // per seed: the wiring is drawn from it
};

/// Sketches the basis by seeds options.seed, options.seed + 1, ... Collective.
/// chunk_rows  rows uploaded at a time; 0: chosen
/// Returns the result on rank 0; on the others no more than its spec
GeometryResult study_geometry(const SketchOptions& options, int seeds, std::int64_t chunk_rows, CoherenceSweep& basis,
                              Backend& backend, const Communicator& comm);

/// The same of dense Gaussian sketches of d rows, whatever the basis (gaussian_geometry). Of the spec only d and seed count.
GeometryResult study_gaussian(std::int64_t d, std::int64_t n, std::uint64_t first_seed, int seeds);

/// How the distortions of a 16-bit sketch differ from those of the FP32 sketch by the same seeds.
struct PrecisionGap {
  double median = 0;   // of the differences, seed by seed, with their sign
  double largest = 0;  // magnitude
};
/// narrow, wide  of the same seeds in the same order, not empty
PrecisionGap precision_gap(const std::vector<double>& narrow, const std::vector<double>& wide);

}  // namespace tallsketch
