// The grid of `bench sketch`: every combination of the lists of its options that exists. Pure.
// Called by drivers/bench_sketch.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/options.h"
#include "src/sketch_timing.h"

namespace tallsketch {

/// The cases, sizes outermost and kernels innermost. What a backend does not do is left in: time_sketch refuses it.
/// skip  is told of every combination that does not exist, in a line without its end: "what: why"
std::vector<SketchCase> make_sketch_grid(const BenchSketchOptions& options,
                                         const std::function<void(const std::string&)>& skip);

/// "m = 4096, n = 64, float32: sparsestack, permuted hash, d = 128, zeta = 4, fp32, kernel strip"
std::string describe(const SketchCase& timed);

}  // namespace tallsketch
