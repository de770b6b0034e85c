// NormalProductPlan: how the refinement pass on the GPU cuts A into tiles of rows, and a row into pieces for lanes.
// Pure; called by normal_product.cu, cuda_normal_product and tests.
//
// A row lies in the registers of some lanes of a warp where n is small, of a warp, or of several warps. A lane holds
// `chunks` pieces of 16 bytes of it, and rows_at_once() rows together, because sums over lanes cost less for several
// rows at a time. The warps that share rows are a team; a tile is the rows that a team takes in one step. Every team has
// a ring of `stages` tiles in shared memory, and works at its own pace: while one waits for sums, others compute.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/strip_plan.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

inline constexpr int kMostRhs = 4;  // right-hand sides of one launch
inline constexpr int kMostStages = 16;

/// Values of A that a lane keeps in FP64 at a time.
inline constexpr int kLaneValues = 16;

/// Rows that a lane holds together: kLaneValues, and at most 8 sums over lanes, one a row and right-hand side, so that
/// 8 lanes can share them out.
TALLSKETCH_HOST_DEVICE constexpr int rows_at_once(int lane_columns, int rhs) {
  const int by_values = kLaneValues / lane_columns, by_sums = 8 / rhs;
  const int rows = by_values < by_sums ? by_values : by_sums;
  return rows < 4 ? rows : 4;
}

/// Warps of a CTA, at most; four schedulers share them, so that they have 128, 168 or 255 registers a thread. A thread
/// needs 4 rhs + 2 rows_at_once a column, and some 30.
TALLSKETCH_HOST_DEVICE constexpr int most_warps(int rhs) { return rhs == 1 ? 16 : rhs == 2 ? 12 : 8; }

// The tensor-core kernel takes kTensorRows rows at a time for kTensorRhs right-hand sides. A warp has 32 columns for each
// of its `groups`, 2 or 4; every warp keeps its columns of x and of the gradient in registers.
inline constexpr int kTensorRhs = 4;
inline constexpr int kTensorRows = 8;
inline constexpr int kFewestTensorStages = 4;              // three belong to the tiles that a step works on
inline constexpr std::int64_t kTensorStaticBytes = 16384;  // of shared memory: barriers and sums of warps
inline constexpr std::int64_t kTensorTeamBytes = 1600;     // of a team behind the rings: residuals, numbers of b

/// Warps of a CTA there, at most: they have 168 or 255 registers a thread. A thread needs 24 a group, and some 110.
TALLSKETCH_HOST_DEVICE constexpr int most_tensor_warps(int groups) { return groups <= 2 ? 12 : 8; }

struct NormalProductPlan {
  bool fused = false;  // otherwise the simple kernel, which takes any width, pitch and device
  ElementType type = ElementType::kFloat32;
  std::int64_t n = 0;
  std::int64_t pitch = 0;  // elements from row to row of A
  int rhs = 1;             // of one launch: 1, 2 or 4; fewer are padded with zeros, more go launch by launch

  bool tensor = false;  // whether the fused kernel is the one for tensor cores
  int groups = 0;       // with tensor: of 32 columns in a warp

  int chunks = 0;      // pieces of 16 bytes of a row in a lane
  int row_lanes = 0;   // lanes of a warp that share a row: 8, 16 or 32
  int team_warps = 0;  // warps that share a row; above 1 only with 32 lanes
  int teams = 0;       // of a CTA
  int tile_rows = 0;   // of a team
  int stages = 0;      // of a team
  int multiprocessors = 0;
  std::int64_t shared_bytes = 0;  // of a CTA

  int lane_columns() const { return chunks * static_cast<int>(16 / element_size(type)); }
  int warps() const { return teams * team_warps; }
  /// Bytes from row to row in shared memory: with tensor, so that the columns of four rows lie in different banks.
  std::int64_t shared_pitch() const {
    return tensor ? std::int64_t{team_warps} * groups * 32 * element_size(type) + 32 : pitch * element_size(type);
  }
  std::int64_t tile_bytes() const { return tile_rows * shared_pitch(); }
  std::int64_t rings_bytes() const { return teams * stages * tile_bytes(); }
  /// Doubles of a CTA's partial result: the gradient (n, rhs), then the squares (rhs).
  std::int64_t partial_doubles() const { return (n + 1) * rhs; }
  /// Doubles of scratch memory that a launch needs.
  std::int64_t scratch_doubles() const { return multiprocessors * partial_doubles(); }
};

/// n            columns of A, >= 1
/// pitch        elements from row to row in device memory, >= n; device_pitch is fast
/// r            right-hand sides, >= 1
/// bulk_copies  whether the device has TMA and the code was compiled for it: strip_engine_available
/// Limits       fused up to n = 8192 where three rows of A fit into shared memory, pitch in whole 16 bytes; four right-
///              hand sides a launch up to n = 2048, two up to 3072, one above
NormalProductPlan make_normal_product_plan(std::int64_t n, std::int64_t pitch, std::int64_t r, ElementType type,
                                           const DeviceLimits& limits, bool bulk_copies);

}  // namespace tallsketch::cuda
