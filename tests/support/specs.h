// A SketchSpec from its essentials, for tests. The product's own is make_sketch_spec (src/plan.h), from options.
#pragma once

#include "kernels/sketch_rule.h"
#include "kernels/sketch_spec.h"

namespace tallsketch {

inline SketchSpec make_spec(SketchHash hash, std::int64_t d, std::int32_t zeta, std::uint64_t seed = 42) {
  SketchSpec spec;
  spec.hash = hash;
  spec.zeta = zeta;
  spec.d = d;
  spec.batch_rows = batch_rows_for(d, zeta);
  spec.seed = seed;
  return spec;
}

}  // namespace tallsketch
