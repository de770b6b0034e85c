// A SketchSpec from its essentials, for tests. The product's own is make_sketch_spec (src/sketch_identity.h), from options.
#pragma once

#include "kernels/sketch_rule.h"
#include "kernels/sketch_spec.h"

namespace tallsketch {

inline SketchSpec make_spec(SketchHash hash, std::int64_t d, std::int32_t zeta, std::uint64_t seed = 42) {
  SketchSpec spec;
  spec.hash = hash;
  spec.zeta = zeta;
  spec.d = d;
  spec.seed = seed;
  spec.batch_rows = batch_rows_for(spec);
  return spec;
}

/// BlockPerm. total_rows > 0: contiguous input blocks of a matrix of so many rows.
inline SketchSpec make_block_spec(SketchHash hash, std::int64_t d, std::int64_t block_rows, std::int32_t kappa,
                                  std::int32_t block_nnz, std::int64_t total_rows = 0, std::uint64_t seed = 42) {
  SketchSpec spec;
  spec.family = SketchFamily::kBlockPerm;
  spec.hash = hash;
  spec.zeta = kappa * block_nnz;
  spec.d = d;
  spec.seed = seed;
  spec.kappa = kappa;
  spec.block_nnz = block_nnz;
  spec.block_rows = block_rows;
  spec.input_blocks = total_rows > 0 ? InputBlocks::kContiguous : InputBlocks::kInterleaved;
  spec.total_rows = total_rows;
  spec.wiring = make_block_wiring(seed, d / block_rows);
  spec.batch_rows = batch_rows_for(spec);
  return spec;
}

}  // namespace tallsketch
