// StripPlan: how the strip engine cuts a sketch into strips of columns, tiles of rows, clusters and register slots.
// Pure; called by strip_engine.cu's launchers, cuda_backend and tests. Why: docs/decisions/0009, 0010, 0012.
//
// A strip is W columns. A cluster of CTAs owns a strip for a run of tiles; CTA c holds the sketch rows
// [c d / CL, (c + 1) d / CL) x W columns in registers. A tile is the rows that lie in shared memory together: several
// batches, one, or a part of one. In every tile each sketch row has the same number of entries (row, sign); a slot is
// one sketch row in the registers of its group of W / 4 lanes, with `entries` of them. Where slots outnumber sketch rows,
// `parts` slots share the entries of one, and are added at the end.
// With the independent hash the number of entries varies: what does not fit `entries` goes to a list a group, its tail.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/rounding.h"
#include "kernels/sketch_spec.h"
#include "kernels/views.h"

namespace tallsketch::cuda {

inline constexpr int kStripWarps = 16;               // consumer warps of a CTA
inline constexpr int kSlotsPerGroup = 16;            // of 4 columns a lane: 64 registers of sums
inline constexpr int kMaxStages = 4;                 // of tiles on their way into shared memory
inline constexpr std::int64_t kZeroRowBytes = 128;   // behind every tile, for entries without a row
inline constexpr int kMaxStripZeta = 16;             // above, scatter
inline constexpr std::int64_t kMaxStripRows = 8192;  // d of a launch
inline constexpr int kMaxLaunches = 4;               // each reads A; above, scatter is as fast

struct StripPlan {
  bool served = false;                       // otherwise: scatter, or conversion of A to FP32
  ElementType type = ElementType::kFloat32;  // of A
  int width = 0;                             // W: strips of 128, 64 or 32 bytes; FP32 32, 16 or 8 columns
  int cluster = 0;                           // CL: 1 or 2 CTAs
  std::int64_t strips = 0;

  std::int64_t tile_rows = 0;  // rows of A that count in a tile
  int batches_per_tile = 1;    // G
  int tiles_per_batch = 1;     // S; one of G and S is 1
  int box_rows = 0;            // rows of one TMA copy
  int boxes = 0;               // TMA copies of a CTA for a tile; the cluster's boxes together cover the tile

  std::int64_t buckets = 0;  // sketch rows of a CTA, d / CL
  int parts = 1;
  int entries = 0;  // of a slot in a tile
  int stages = 0;
  std::int64_t tile_bytes = 0;     // in shared memory, all boxes
  std::int64_t tail_capacity = 0;  // tail entries of a tile and CTA; 0: no tails, counts are fixed
  std::int64_t entry_bytes = 0;    // of a tile and CTA: slots' entries, tail offsets of the groups, tails
  std::int64_t stage_bytes = 0;    // tile, one row of zeros, entries

  std::int64_t row_bytes() const { return width * element_size(type); }  // of a strip
  std::int64_t slots() const { return std::int64_t{kStripWarps} * 32 / (width / 4) * kSlotsPerGroup; }
  std::int64_t groups() const { return slots() / kSlotsPerGroup; }
  std::int64_t dense_bytes() const { return slots() * entries * 2; }
  std::int64_t offset_bytes() const { return tail_capacity > 0 ? round_up((groups() + 1) * 2, 16) : 0; }
  std::int64_t table_bytes_per_tile() const { return entry_bytes * cluster; }
};

/// What the planner has to know of a device.
struct DeviceLimits {
  int multiprocessors = 132;
  std::int64_t shared_bytes = 232448;  // of a CTA
};

/// The part of S that one launch takes: all of it, or where d exceeds kMaxStripRows and the hash is SparseStack's permuted
/// one, the first half or quarter of its blocks, as a sketch with as many rows; the other launches take the others. Its T
/// stays that of S.
SketchSpec launch_share(const SketchSpec& spec);

/// spec    of one launch
/// type    of A in device memory; sums are FP32 always
/// Limits  fp32; d <= 8192, zeta <= 16; SparseStack by the permuted hash with the table's T, or by the independent hash;
///         BlockPerm by the permuted hash with interleaved input blocks. A in FP16 or BF16: d <= 4096, and not by the
///         independent hash. served = false for the rest
StripPlan make_strip_plan(const SketchSpec& spec, std::int64_t n, const DeviceLimits& limits,
                          ElementType type = ElementType::kFloat32);

struct TileRange {
  std::int64_t first = 0;  // index of the tile that holds the first row
  std::int64_t count = 0;
};

/// Tiles that hold any of the global rows [first_row, first_row + rows).
TileRange tiles_of_rows(const StripPlan& plan, const SketchSpec& spec, std::int64_t first_row, std::int64_t rows);

/// First global row of a tile.
TALLSKETCH_HOST_DEVICE std::int64_t first_row_of_tile(std::int64_t tile, std::int64_t tile_rows,
                                                      std::int32_t tiles_per_batch, std::int64_t batch_rows) {
  if (tiles_per_batch == 1) return tile * tile_rows;
  return tile / tiles_per_batch * batch_rows + tile % tiles_per_batch * tile_rows;
}

/// How one launch shares the work: waves of neighbouring strips, whose reads share DRAM pages, each cut by rows into
/// splits. Cluster k takes, in wave w, strip w * strips_per_wave + k mod strips_per_wave and split k / strips_per_wave.
struct StripGrid {
  int waves = 1;
  int strips_per_wave = 1;
  int splits = 1;
  std::int64_t clusters() const { return std::int64_t{strips_per_wave} * splits; }
};

/// The grid that ends first on a device where one CTA fills a multiprocessor.
StripGrid make_strip_grid(const StripPlan& plan, std::int64_t tiles, const DeviceLimits& limits);

/// First tile of a split; the next split's is its end. tiles * splits stays below 2^63.
TALLSKETCH_HOST_DEVICE std::int64_t split_begin(std::int64_t split, std::int64_t splits, std::int64_t tiles) {
  return split * tiles / splits;
}

/// Floats of the partial results of one launch: (split, strip, CTA, slot, column).
std::int64_t partial_floats(const StripPlan& plan, std::int64_t splits);

/// Most splits that make_strip_grid returns for the plan on the device.
std::int64_t most_splits(const StripPlan& plan, const DeviceLimits& limits);

/// Elements from row to row of A in device memory: whole strips, so that a strip's piece of a row is one 128-byte line
/// and never cut by the end of the row. A cut strip takes TMA about 1.6 times as long as a whole one, and a piece
/// across two lines fetches both (n = 1000, d = 2048: 1.62 floors with a pitch of 1000, 1.16 with 1024 and a cut
/// strip). The price is memory: up to 124 bytes of padding (FP16, BF16: 126).
std::int64_t device_pitch(std::int64_t n, ElementType type = ElementType::kFloat32);

}  // namespace tallsketch::cuda
