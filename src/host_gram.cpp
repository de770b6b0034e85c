// Columns are taken 8 together, a panel; a run's rows of a panel are widened into a tile (rows, 8) that is contiguous,
// and the products of two panels, 8 x 8 entries, are summed in registers. Panels form blocks whose tiles stay in L2: a
// task is two blocks and one segment, so that threads share nothing.
#include "src/host_gram.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include <omp.h>

#include "kernels/host_device.h"
#include "kernels/rounding.h"
#include "kernels/widen_host.h"

namespace tallsketch {

namespace {

using host::Lanes;

constexpr std::int64_t kPanel = 8;               // columns: a cache line of doubles
constexpr std::int64_t kTile = kPanel * kPanel;  // entries of the sum that two panels make
constexpr std::int64_t kRunRows = 256;           // summed without compensation: the constant of the error bound
constexpr std::int64_t kMaxBlockPanels = 32;     // a run's rows of them take 512 KiB: half of Zen 4's L2
constexpr std::int64_t kSegmentBytes = std::int64_t{1} << 20;  // of all segments, for each that there may be

/// As Lanes, a register twice as wide.
using WideLanes = double __attribute__((vector_size(64), aligned(8), may_alias));

/// Sizes that follow from the shapes; the same in every call.
struct Layout {
  std::int64_t cols;          // n + r
  std::int64_t panels;        // the last is filled up with zeros
  std::int64_t blocks;        // of panels, as even as can be
  std::int64_t block_panels;  // of every block but the last
  std::int64_t segment_size;  // doubles: high and low of every tile of the upper triangle
  std::int64_t segments;
  std::int64_t worker_size;  // doubles: the widened rows of two blocks
};

Layout make_layout(std::int64_t n, std::int64_t r, std::int64_t most_segments) {
  Layout l{};
  l.cols = n + r;
  l.panels = divide_up(l.cols, kPanel);
  l.block_panels = divide_up(l.panels, divide_up(l.panels, kMaxBlockPanels));
  l.blocks = divide_up(l.panels, l.block_panels);
  l.segment_size = l.panels * (l.panels + 1) * kTile;
  l.segments = std::clamp(most_segments * kSegmentBytes / (8 * l.segment_size), std::int64_t{1}, most_segments);
  l.worker_size = 2 * l.block_panels * kPanel * kRunRows;
  return l;
}

/// Place of the tile of panels i <= j in a segment; its low parts follow its high ones.
std::int64_t tile_place(std::int64_t i, std::int64_t j) { return (j * (j + 1) / 2 + i) * 2 * kTile; }

// Widening --------------------------------------------------------------------------------------------------------

/// Panels of [A | b] whose first column is `column` in panels of their own; zeros behind the last column.
/// to  out (panels, rows, 8)
template <class T>
inline __attribute__((always_inline)) void widen_panels(const SlabView& a, const SlabView& b, std::int64_t column,
                                                        std::int64_t panels, double* to) {
  const std::int64_t size = a.rows * kPanel;
  for (const double* end = to + panels * size; to != end; to += size, column += kPanel) {
    const std::int64_t of_a = std::clamp(a.cols - column, std::int64_t{0}, kPanel);
    const auto* from = static_cast<const T*>(a.data) + column;
    if (of_a == kPanel) {
      for (std::int64_t k = 0; k < a.rows; ++k) {
        for (std::int64_t j = 0; j < kPanel; j += host::kLane) {
          host::load(from + k * a.pitch + j, *reinterpret_cast<Lanes*>(to + k * kPanel + j));
        }
      }
      continue;
    }
    std::fill_n(to, size, 0.0);
    for (std::int64_t j = 0; j < of_a; ++j) {
      for (std::int64_t k = 0; k < a.rows; ++k) to[k * kPanel + j] = host::widen(from[k * a.pitch + j]);
    }
    const std::int64_t first_of_b = column + of_a - a.cols;
    const std::int64_t end_of_b = std::min(b.cols, first_of_b + kPanel - of_a);
    for (std::int64_t j = first_of_b; j < end_of_b; ++j) {
      const double* from_b = static_cast<const double*>(b.data) + j;
      for (std::int64_t k = 0; k < a.rows; ++k) to[k * kPanel + of_a + j - first_of_b] = from_b[k * b.pitch];
    }
  }
}

TALLSKETCH_VECTOR_CLONES
void widen_block(const SlabView& a, const SlabView& b, std::int64_t column, std::int64_t panels, double* to) {
  switch (a.type) {
    case ElementType::kFloat16:
      if (host::processor_widens_halves()) return widen_panels<host::Half>(a, b, column, panels, to);
      return widen_panels<host::PortableHalf>(a, b, column, panels, to);
    case ElementType::kBfloat16: return widen_panels<host::Bfloat16>(a, b, column, panels, to);
    case ElementType::kFloat32: return widen_panels<float>(a, b, column, panels, to);
    case ElementType::kFloat64: return widen_panels<double>(a, b, column, panels, to);
  }
}

// Products --------------------------------------------------------------------------------------------------------

/// Adds left^T right, with kRows columns of left and kVectors * lanes of right, to a tile with compensation.
/// left, right  in (rows, 8), at the first of these columns
/// high         in/out (8, 8), at the first of these entries; low parts kTile further on
/// Source: Knuth's TwoSum, as in Neumaier's and Kahan's sums
template <class Lanes, int kVectors, int kRows>
inline __attribute__((always_inline)) void add_tile(const double* left, const double* right, std::int64_t rows,
                                                    double* high) {
  constexpr int kLanes = sizeof(Lanes) / sizeof(double);
  Lanes sum[kRows][kVectors] = {};
  for (std::int64_t k = 0; k < rows; ++k, left += kPanel, right += kPanel) {
    for (int v = 0; v < kVectors; ++v) {
      const Lanes factor = *reinterpret_cast<const Lanes*>(right + v * kLanes);
      for (int i = 0; i < kRows; ++i) sum[i][v] += left[i] * factor;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      auto* to = reinterpret_cast<Lanes*>(high + i * kPanel + v * kLanes);
      auto* low = reinterpret_cast<Lanes*>(high + kTile + i * kPanel + v * kLanes);
      const Lanes before = *to;
      const Lanes total = before + sum[i][v];
      const Lanes taken = total - before;
      *low += (before - (total - taken)) + (sum[i][v] - taken);
      *to = total;
    }
  }
}

/// Two blocks' widened rows of a run.
struct BlockPair {
  const double* left;   // (panels, rows, 8)
  const double* right;  // the same block as left, if that stands on the diagonal
  std::int64_t rows;
  std::int64_t left_begin, left_end, right_begin, right_end;  // panels
  bool narrow_end;                                            // the last panel of all has 4 columns at most
};

/// Adds the products of two blocks to a segment. Twice as many registers are there, and twice as wide, if kWide.
template <bool kWide>
inline __attribute__((always_inline)) void add_blocks(const BlockPair& in, std::int64_t panels, double* segment) {
  const BlockPair pair = in;
  const std::int64_t size = pair.rows * kPanel;  // of a widened panel
  for (std::int64_t j = pair.right_begin; j < pair.right_end; ++j) {
    const double* right = pair.right + (j - pair.right_begin) * size;
    const bool narrow = pair.narrow_end && j + 1 == panels;
    for (std::int64_t i = pair.left_begin; i < std::min(pair.left_end, j + 1); ++i) {
      const double* left = pair.left + (i - pair.left_begin) * size;
      double* high = segment + tile_place(i, j);
      if (narrow) {
        add_tile<Lanes, 1, 8>(left, right, pair.rows, high);
      } else if constexpr (kWide) {
        add_tile<WideLanes, 1, 8>(left, right, pair.rows, high);
      } else {
        add_tile<Lanes, 2, 4>(left, right, pair.rows, high);
        add_tile<Lanes, 2, 4>(left + 4, right, pair.rows, high + 4 * kPanel);
      }
    }
  }
}

TALLSKETCH_VECTOR_CLONES
void add_blocks_16_registers(const BlockPair& pair, std::int64_t panels, double* segment) {
  add_blocks<false>(pair, panels, segment);
}
TALLSKETCH_VECTOR_CLONES
void add_blocks_32_registers(const BlockPair& pair, std::int64_t panels, double* segment) {
  add_blocks<true>(pair, panels, segment);
}

bool has_32_registers() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

/// Adds a segment's rows of a chunk to the products of blocks p <= q.
void add_segment(const Layout& l, const SlabView& a, const SlabView& b, std::int64_t p, std::int64_t q, double* worker,
                 double* segment) {
  const auto add = has_32_registers() ? add_blocks_32_registers : add_blocks_16_registers;
  double* other = p == q ? worker : worker + l.worker_size / 2;
  BlockPair pair{worker,
                 other,
                 0,
                 p * l.block_panels,
                 std::min(l.panels, (p + 1) * l.block_panels),
                 q * l.block_panels,
                 std::min(l.panels, (q + 1) * l.block_panels),
                 l.cols % kPanel != 0 && l.cols % kPanel <= kPanel / 2};
  for (std::int64_t row = 0; row < a.rows; row += kRunRows) {
    pair.rows = std::min(kRunRows, a.rows - row);
    const SlabView run_of_a = rows_of(a, row, pair.rows), run_of_b = rows_of(b, row, pair.rows);
    widen_block(run_of_a, run_of_b, pair.left_begin * kPanel, pair.left_end - pair.left_begin, worker);
    if (p != q) {
      widen_block(run_of_a, run_of_b, pair.right_begin * kPanel, pair.right_end - pair.right_begin, other);
    }
    add(pair, l.panels, segment);
  }
}

}  // namespace

HostGram::HostGram(std::int64_t n, std::int64_t r, int threads, std::int64_t most_segments)
    : n_(n), r_(r), most_segments_(most_segments), threads_(threads) {
  const Layout l = make_layout(n, r, most_segments);
  sums_ = HostBuffer(8 * l.segments * l.segment_size);
  tiles_ = HostBuffer(8 * threads * l.worker_size);
  std::fill_n(reinterpret_cast<double*>(sums_.data()), l.segments * l.segment_size, 0.0);
}

std::int64_t HostGram::bytes(std::int64_t n, std::int64_t r, int threads, std::int64_t most_segments) {
  const Layout l = make_layout(n, r, most_segments);
  return 8 * (l.segments * l.segment_size + threads * l.worker_size);
}

void HostGram::add(const SlabView& a, const SlabView& b) {
  assert(a.cols == n_ && b.cols == r_ && b.rows == a.rows);
  assert(b.type == ElementType::kFloat64);
  if (a.rows == 0) return;
  const Layout l = make_layout(n_, r_, most_segments_);
  auto* sums = reinterpret_cast<double*>(sums_.data());
  auto* tiles = reinterpret_cast<double*>(tiles_.data());
  const std::int64_t rows = round_up(divide_up(a.rows, l.segments), kRunRows);  // of a segment
  const std::int64_t pairs = l.blocks * (l.blocks + 1) / 2;
  const std::int64_t tasks = divide_up(a.rows, rows) * pairs;
  const auto threads = static_cast<int>(std::min<std::int64_t>(threads_, tasks));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t segment = task / pairs;
    std::int64_t p = task % pairs, q = 0;
    while (p > q) p -= ++q;  // pairs (0, 0), (0, 1), (1, 1), (0, 2), ...
    const std::int64_t first = segment * rows;
    const std::int64_t count = std::min(rows, a.rows - first);
    add_segment(l, rows_of(a, first, count), rows_of(b, first, count), p, q,
                tiles + omp_get_thread_num() * l.worker_size, sums + segment * l.segment_size);
  }
}

std::vector<double> HostGram::upper() const {
  const Layout l = make_layout(n_, r_, most_segments_);
  const auto* sums = reinterpret_cast<const double*>(sums_.data());
  std::vector<double> upper(static_cast<std::size_t>(l.cols * l.cols), 0.0);
  for (std::int64_t j = 0; j < l.cols; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const double* at = sums + tile_place(i / kPanel, j / kPanel) + i % kPanel * kPanel + j % kPanel;
      double high = 0, low = 0;
      for (std::int64_t segment = 0; segment < l.segments; ++segment, at += l.segment_size) {
        const double total = high + at[0];
        const double taken = total - high;
        low += (high - (total - taken)) + (at[0] - taken) + at[kTile];
        high = total;
      }
      upper[static_cast<std::size_t>(j * l.cols + i)] = high + low;
    }
  }
  return upper;
}

template <class T>
std::vector<double> gram_of_sketch(const std::vector<T>& sketch, std::int64_t n, std::int64_t r,
                                   const CheckRows& unused, int threads) {
  const std::int64_t cols = n + r, d = static_cast<std::int64_t>(sketch.size()) / cols;
  HostGram gram(n, r, threads, HostGram::kSegmentsOfSketch);
  // The sketch of b in FP64, as HostGram takes it, and the runs of rows between unused ones.
  std::vector<double> b;
  for (std::int64_t begin = 0, end = 0; begin < d; begin = end + 1) {
    for (end = begin; end < d && !unused.holds(end); ++end) {
    }
    b.clear();
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const row = sketch.data() + i * cols + n;
      b.insert(b.end(), row, row + r);
    }
    gram.add({sketch.data() + begin * cols, end - begin, n, cols, kElementType<T>, begin},
             {b.data(), end - begin, r, r, ElementType::kFloat64, begin});
  }
  return gram.upper();
}

template std::vector<double> gram_of_sketch(const std::vector<float>&, std::int64_t, std::int64_t, const CheckRows&,
                                            int);
template std::vector<double> gram_of_sketch(const std::vector<double>&, std::int64_t, std::int64_t, const CheckRows&,
                                            int);

}  // namespace tallsketch
