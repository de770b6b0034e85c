// One sketch of all rows of a source by a backend, back on the host: what studies look at.
// Called by geometry_study and task_study.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sketch_spec.h"
#include "src/choices.h"

namespace tallsketch {

class Backend;
class Communicator;
class RowSource;

/// S [A | b], unscaled, (d, n + r) row-major on every rank. Collective.
/// chunk_rows  rows uploaded at a time; 0: chosen
std::vector<double> whole_sketch(Backend& backend, const SketchSpec& spec, ScalingChoice scaling,
                                 std::int64_t chunk_rows, RowSource& source, const Communicator& comm);

}  // namespace tallsketch
