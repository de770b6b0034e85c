// How paper B's kernel cuts a BlockPerm sketch: tiles, row slices, and the rows of a slab that form an input block.
// Pure; called by flash.cu, by what checks that the kernel serves a sketch, and by tests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/block_perm.h"
#include "kernels/host_device.h"
#include "kernels/rounding.h"
#include "kernels/sketch_spec.h"

namespace tallsketch::cuda {

// Paper B, appendix B.2: T_n and T_k of its menu.
inline constexpr int kFlashColumns = 32;
inline constexpr int kFlashTileRows = 128;
// Paper B, appendix B.1: at most this many slices of an input block's rows.
inline constexpr int kMaxFlashSlices = 16;

/// Rows first, first + stride, ..., `count` of them, counted from the first row of a slab.
struct BlockRows {
  std::int64_t first, stride, count;
};

/// The rows of an input block in a slab of the global rows [first_row, first_row + rows).
TALLSKETCH_HOST_DEVICE BlockRows rows_of_input_block(const SketchSpec& spec, std::int64_t block, std::int64_t first_row,
                                                     std::int64_t rows) {
  const std::int64_t blocks = block_count(spec);
  if (spec.input_blocks == InputBlocks::kInterleaved) {
    const std::int64_t first = (block + blocks - first_row % blocks) % blocks;
    return {first, blocks, first < rows ? (rows - first + blocks - 1) / blocks : 0};
  }
  const std::int64_t block_rows = (spec.total_rows + blocks - 1) / blocks;  // B_c
  const std::int64_t begin = block * block_rows - first_row, end = begin + block_rows;
  const std::int64_t first = begin < 0 ? 0 : begin;
  const std::int64_t last = end < rows ? end : rows;
  return {first, 1, first < last ? last - first : 0};
}

/// Shared memory of a CTA: its (B_r, T_n) tile of the sketch, a (T_k, T_n) tile of A and the entries of those rows.
constexpr std::int64_t flash_shared_bytes(const SketchSpec& spec) {
  return 4 * (spec.block_rows * kFlashColumns + kFlashTileRows * (kFlashColumns + std::int64_t{spec.block_nnz}));
}

/// Slices of every input block's rows, each a CTA of its own: one where the tiles of the sketch are 8 a multiprocessor.
constexpr std::int64_t flash_slices(const SketchSpec& spec, std::int64_t cols, int multiprocessors) {
  const std::int64_t tiles = spec.d / spec.block_rows * divide_up(cols, kFlashColumns);
  return std::clamp<std::int64_t>(divide_up(8 * std::int64_t{multiprocessors}, tiles), 1, kMaxFlashSlices);
}

}  // namespace tallsketch::cuda
