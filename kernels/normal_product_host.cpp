// A block of 8 rows is used twice while it is in L1 or L2: dot products with x, then the update of the gradient.
// x and the gradient are kept in the order in which the loops read them; A is read as it is. Copied and padded with
// zeros are only the columns and rows that fill no line and no block of 8 (and all binary16 if the processor lacks F16C).
#include "kernels/normal_product_host.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>

#include <omp.h>

#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/rounding.h"
#include "kernels/widen_host.h"

namespace tallsketch::host {
namespace {

constexpr std::int64_t kLine = 8;  // columns that are stored together: a cache line of doubles
constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kBlockRows = 8;
constexpr std::int64_t kMaxRhs = 4;     // right-hand sides that one loop takes
constexpr std::int64_t kRunRows = 256;  // rows summed without compensation: the constant of the error bound
constexpr std::int64_t kMinSegments = 16;
constexpr std::int64_t kMaxSegments = 64;                      // bounds the threads at work
constexpr std::int64_t kSegmentBytes = std::int64_t{8} << 20;  // sums of all segments, if more than kMinSegments
// Rows that stay in L2 from one group of right-hand sides to the next.
constexpr std::int64_t kVisitBytes = std::int64_t{1} << 18;
// Chosen on Zen 4, n = 64 and 256, one thread; ratios to a read-only pass. None: FP64 2.4 and 1.2, FP32 1.3 and 2.0;
// one block: FP64 1.35 and 0.9, FP32 1.1 and 1.1; two: FP64 1.17 and 0.9, FP32 1.0 and 1.1.
constexpr std::int64_t kPrefetchBlocks = 2;

using Permutation = std::int64_t __attribute__((vector_size(8 * kLane)));

/// Sizes that follow from the shapes; the same in every call of one pass.
struct Layout {
  std::int64_t n, r;
  std::int64_t lines;       // groups of 8 columns, the last filled up with zeros
  std::int64_t sums;        // doubles of a set of sums: gradient and squares
  std::int64_t segments;    // consecutive rows of a chunk, with compensated sums of their own
  std::int64_t visit_rows;  // a multiple of kBlockRows
  // Workspace, in doubles: x, the segments' sums and compensations, then for each thread sums, b and a tile.
  std::int64_t x_size, segment_size, b_size, worker_size;
};

Layout make_layout(std::int64_t n, std::int64_t r) {
  Layout l{};
  l.n = n;
  l.r = r;
  l.lines = divide_up(n, kLine);
  l.sums = (l.lines + 1) * kLine * r;
  l.segment_size = 2 * l.sums;
  l.segments = std::clamp(kSegmentBytes / std::max<std::int64_t>(1, 8 * l.segment_size), kMinSegments, kMaxSegments);
  l.visit_rows = std::clamp(kVisitBytes / (8 * kLine * l.lines) / kBlockRows * kBlockRows, kBlockRows, kRunRows);
  l.x_size = l.lines * kLine * r;
  l.b_size = l.visit_rows * r;
  l.worker_size = l.sums + l.b_size + l.visit_rows * l.lines * kLine;
  return l;
}

/// What one thread owns.
struct Worker {
  double* sums;  // of the current run
  double* b;     // (visit_rows / 8, r, 8)
  void* tile;    // (visit_rows, 8 * lines) FP32 or FP64
};

double* segment_sums(const Layout& l, const NormalWorkspace& workspace, std::int64_t segment) {
  return static_cast<double*>(workspace.data) + l.x_size + segment * l.segment_size;
}

Worker make_worker(const Layout& l, const NormalWorkspace& workspace, std::int64_t thread) {
  double* sums = segment_sums(l, workspace, l.segments) + thread * l.worker_size;
  return {sums, sums + l.sums, sums + l.sums + l.b_size};
}

// The loops over a panel ------------------------------------------------------------------------------------------

/// Whole blocks of rows, and up to 4 right-hand sides.
struct Panel {
  const void* rows;  // (8 * blocks, n) row-major
  std::int64_t pitch;
  std::int64_t blocks;
  std::int64_t whole_lines, tail;  // n = 8 * whole_lines + tail
  std::int64_t rhs;                // 1 ... 4
  const double* x;                 // (lines, rhs, 8)
  const double* b;                 // (blocks, rhs, 8): the 8 rows of a block
  std::int64_t b_stride;           // from block to block
  double* sums;                    // (lines + 1, rhs, 8): the gradient, then squares
};

/// Asks for the same place some blocks on, to L2 (hints that fill L1 too: 1.9 read passes instead of 1.1). Past the end
/// of the rows too: a prefetch cannot fail.
template <class T>
inline __attribute__((always_inline)) void prefetch_ahead(const T* at, std::int64_t pitch) {
  const auto distance = static_cast<std::uintptr_t>(kPrefetchBlocks * kBlockRows * pitch) * sizeof(T);
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + distance), 0, 2);
}

/// Adds the products of x and a line of kRows rows to partial dot products.
template <class T, int kRhs, int kRows>
inline __attribute__((always_inline)) void dot_line(const T* rows, std::int64_t pitch, const double* x,
                                                    Lanes (&sum)[kRhs][kRows]) {
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kLine; j += kLane) {
      Lanes value;
      load(rows + i * pitch + j, value);
      for (int k = 0; k < kRhs; ++k) sum[k][i] += value * *reinterpret_cast<const Lanes*>(x + k * kLine + j);
    }
  }
}

/// Partial dot products of kRows rows.
/// tail  in (kRows, 8): the columns behind the whole lines, and zeros
/// to    out (rhs, 8 rows), at the first of these rows
template <class T, int kRhs, int kRows>
inline __attribute__((always_inline)) void dot_rows(const Panel& panel, const T* rows, const T* tail, Lanes* to) {
  Lanes sum[kRhs][kRows] = {};
  const double* x = panel.x;
  for (std::int64_t c = 0; c < panel.whole_lines; ++c, rows += kLine, x += kRhs * kLine) {
    for (int i = 0; i < kRows; ++i) prefetch_ahead(rows + i * panel.pitch, panel.pitch);
    dot_line<T, kRhs, kRows>(rows, panel.pitch, x, sum);
  }
  if (panel.tail > 0) dot_line<T, kRhs, kRows>(tail, kLine, x, sum);
  for (int k = 0; k < kRhs; ++k) {
    for (int i = 0; i < kRows; ++i) to[k * kBlockRows + i] = sum[k][i];
  }
}

/// Element i of the result is the sum of part[i], pairwise.
inline __attribute__((always_inline)) void sum_each(const Lanes* part, Lanes& to) {
  Lanes half[2];  // of the sums of parts 2i and 2i + 1, in turn
  for (int i = 0; i < 2; ++i) {
    half[i] = __builtin_shuffle(part[2 * i], part[2 * i + 1], Permutation{0, 4, 2, 6}) +
              __builtin_shuffle(part[2 * i], part[2 * i + 1], Permutation{1, 5, 3, 7});
  }
  to = __builtin_shuffle(half[0], half[1], Permutation{0, 1, 4, 5}) +
       __builtin_shuffle(half[0], half[1], Permutation{2, 3, 6, 7});
}

/// sums += rows^T residual, of a line of kRows rows.
template <class T, int kRhs, int kRows>
inline __attribute__((always_inline)) void update_line(const T* rows, std::int64_t pitch, const double* residual,
                                                       double* sums) {
  for (int j = 0; j < kLine; j += kLane) {
    Lanes sum[kRhs];
    for (int k = 0; k < kRhs; ++k) sum[k] = *reinterpret_cast<const Lanes*>(sums + k * kLine + j);
    for (int i = 0; i < kRows; ++i) {
      Lanes value;
      load(rows + i * pitch + j, value);
      for (int k = 0; k < kRhs; ++k) sum[k] += value * residual[k * kBlockRows + i];
    }
    for (int k = 0; k < kRhs; ++k) *reinterpret_cast<Lanes*>(sums + k * kLine + j) = sum[k];
  }
}

/// sums += rows^T residual, of kRows rows.
/// tail      in (kRows, 8): the columns behind the whole lines, and zeros
/// residual  in (rhs, 8 rows), at the first of these rows
template <class T, int kRhs, int kRows>
inline __attribute__((always_inline)) void update_sums(const Panel& panel, const T* rows, const T* tail,
                                                       const double* residual) {
  double* sums = panel.sums;
  for (std::int64_t c = 0; c < panel.whole_lines; ++c, rows += kLine, sums += kRhs * kLine) {
    update_line<T, kRhs, kRows>(rows, panel.pitch, residual, sums);
  }
  if (panel.tail > 0) update_line<T, kRhs, kRows>(tail, kLine, residual, sums);
}

/// Adds a panel block by block.
template <class T, int kRhs>
inline __attribute__((always_inline)) void add_blocks(const Panel& in) {
  const Panel panel = in;
  constexpr int kRows = kRhs == 1 ? 8 : 4;  // at least 8 sums, to hide the latency of an addition; at most 16 registers
  const auto* rows = static_cast<const T*>(panel.rows);
  const double* b = panel.b;
  double* squares = panel.sums + (panel.whole_lines + (panel.tail > 0)) * kRhs * kLine;
  alignas(kLineBytes) T tail[kBlockRows * kLine] = {};
  for (std::int64_t block = 0; block < panel.blocks; ++block) {
    for (std::int64_t j = 0; j < panel.tail; ++j) {
      for (int i = 0; i < kBlockRows; ++i) {
        tail[i * kLine + j] = rows[i * panel.pitch + panel.whole_lines * kLine + j];
      }
    }
    Lanes parts[kRhs * kBlockRows];
    for (int i = 0; i < kBlockRows; i += kRows) {
      dot_rows<T, kRhs, kRows>(panel, rows + i * panel.pitch, tail + i * kLine, parts + i);
    }
    alignas(kLineBytes) double residual[kRhs * kBlockRows];
    for (int i = 0; i < kRhs * kBlockRows; i += kLane) {
      Lanes product;
      sum_each(parts + i, product);
      const Lanes difference = *reinterpret_cast<const Lanes*>(b + i) - product;
      *reinterpret_cast<Lanes*>(squares + i) += difference * difference;
      *reinterpret_cast<Lanes*>(residual + i) = difference;
    }
    for (int i = 0; i < kBlockRows; i += kRows) {
      update_sums<T, kRhs, kRows>(panel, rows + i * panel.pitch, tail + i * kLine, residual + i);
    }
    rows += kBlockRows * panel.pitch;
    b += panel.b_stride;
  }
}

template <class T>
inline __attribute__((always_inline)) void add_panel(const Panel& panel) {
  switch (panel.rhs) {
    case 1: return add_blocks<T, 1>(panel);
    case 2: return add_blocks<T, 2>(panel);
    case 3: return add_blocks<T, 3>(panel);
    default: return add_blocks<T, 4>(panel);
  }
}

TALLSKETCH_VECTOR_CLONES void add_float_panel(const Panel& panel) { add_panel<float>(panel); }
TALLSKETCH_VECTOR_CLONES void add_double_panel(const Panel& panel) { add_panel<double>(panel); }
TALLSKETCH_VECTOR_CLONES void add_half_panel(const Panel& panel) { add_panel<Half>(panel); }
TALLSKETCH_VECTOR_CLONES void add_bfloat16_panel(const Panel& panel) { add_panel<Bfloat16>(panel); }

void add_panel_of(ElementType type, const Panel& panel) {
  switch (type) {
    case ElementType::kFloat32: return add_float_panel(panel);
    case ElementType::kFloat64: return add_double_panel(panel);
    case ElementType::kFloat16: return add_half_panel(panel);
    case ElementType::kBfloat16: return add_bfloat16_panel(panel);
  }
}

// Rows to panels --------------------------------------------------------------------------------------------------

/// One row of a slab, widened.
inline __attribute__((always_inline)) void widen_row(const SlabView& slab, std::int64_t row, double* to) {
  std::copy_n(static_cast<const double*>(slab.data) + row * slab.pitch, slab.cols, to);
}
inline __attribute__((always_inline)) void widen_row(const SlabView& slab, std::int64_t row, float* to) {
  const std::int64_t at = row * slab.pitch;
  if (slab.type == ElementType::kFloat32) {
    std::copy_n(static_cast<const float*>(slab.data) + at, slab.cols, to);
  } else if (slab.type == ElementType::kFloat16) {
    const auto* from = static_cast<const std::uint16_t*>(slab.data) + at;
    for (std::int64_t j = 0; j < slab.cols; ++j) to[j] = half_to_float(from[j]);
  } else {
    const auto* from = static_cast<const std::uint16_t*>(slab.data) + at;
    for (std::int64_t j = 0; j < slab.cols; ++j) to[j] = bfloat16_to_float(from[j]);
  }
}

/// Copies a slab; zeros fill up every row, and the last block.
/// to  out (rows rounded up to 8, padded)
template <class T>
inline __attribute__((always_inline)) void pack_rows(const SlabView& slab, std::int64_t padded, T* to) {
  for (std::int64_t k = 0; k < slab.rows; ++k, to += padded) {
    widen_row(slab, k, to);
    std::fill_n(to + slab.cols, padded - slab.cols, T{0});
  }
  std::fill_n(to, (round_up(slab.rows, kBlockRows) - slab.rows) * padded, T{0});
}

TALLSKETCH_VECTOR_CLONES
void pack_a(const SlabView& a, std::int64_t padded, void* to) {
  if (a.type == ElementType::kFloat64) {
    pack_rows(a, padded, static_cast<double*>(to));
  } else {
    pack_rows(a, padded, static_cast<float*>(to));
  }
}

/// b of a visit in the order of the loops; zero rows fill up the last block, and all of it if there is no b.
/// to  out (blocks, r, 8)
void pack_b(const SlabView& b, std::int64_t r, double* to) {
  const auto* from = static_cast<const double*>(b.data);
  for (std::int64_t row = 0; row < b.rows; row += kBlockRows, to += r * kBlockRows) {
    const std::int64_t present = from == nullptr ? 0 : std::min(kBlockRows, b.rows - row);
    if (present < kBlockRows) std::fill_n(to, r * kBlockRows, 0.0);
    for (std::int64_t i = 0; i < present; ++i) {
      for (std::int64_t k = 0; k < r; ++k) to[k * kBlockRows + i] = from[(row + i) * b.pitch + k];
    }
  }
}

/// Adds rows to a panel's sums, group of right-hand sides by group.
void add_groups(const Layout& l, const double* x, Panel panel, ElementType type, const Worker& worker) {
  for (std::int64_t k = 0; k < l.r; k += kMaxRhs) {
    panel.rhs = std::min(kMaxRhs, l.r - k);
    panel.x = x + k * l.lines * kLine;
    panel.b = worker.b + k * kBlockRows;
    panel.sums = worker.sums + k * (l.lines + 1) * kLine;
    add_panel_of(type, panel);
  }
}

/// Adds up to visit_rows rows to the run's sums.
void add_visit(const Layout& l, const double* x, const SlabView& a, const SlabView& b, const Worker& worker) {
  pack_b(b, l.r, worker.b);
  Panel panel{};
  panel.b_stride = l.r * kBlockRows;
  const bool as_it_is = a.type != ElementType::kFloat16 || processor_widens_halves();
  const std::int64_t direct = as_it_is ? a.rows / kBlockRows * kBlockRows : 0;
  if (direct > 0) {
    panel.rows = a.data;
    panel.pitch = a.pitch;
    panel.blocks = direct / kBlockRows;
    panel.whole_lines = l.n / kLine;
    panel.tail = l.n % kLine;
    add_groups(l, x, panel, a.type, worker);
  }
  if (direct == a.rows) return;
  pack_a(rows_of(a, direct, a.rows - direct), l.lines * kLine, worker.tile);
  panel.rows = worker.tile;
  panel.pitch = l.lines * kLine;
  panel.blocks = divide_up(a.rows - direct, kBlockRows);
  panel.whole_lines = l.lines;
  panel.tail = 0;
  const ElementType widened = a.type == ElementType::kFloat64 ? a.type : ElementType::kFloat32;
  add_groups(l, x, panel, widened, {worker.sums, worker.b + direct * l.r, worker.tile});
}

/// high + low += term, with the rounding errors of high collected in low.
/// Source: Knuth's TwoSum, as in Neumaier's and Kahan's sums
TALLSKETCH_VECTOR_CLONES
void add_compensated(double* high, double* low, const double* term, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    const double sum = high[k] + term[k];
    const double taken = sum - high[k];
    low[k] += (high[k] - (sum - taken)) + (term[k] - taken);
    high[k] = sum;
  }
}

/// Adds one segment's rows of a chunk, run by run.
void add_segment(const Layout& l, const double* x, const SlabView& a, const SlabView& b, const Worker& worker,
                 double* segment) {
  for (std::int64_t run = 0; run < a.rows; run += kRunRows) {
    const std::int64_t run_end = std::min(a.rows, run + kRunRows);
    std::fill_n(worker.sums, l.sums, 0.0);
    for (std::int64_t row = run; row < run_end; row += l.visit_rows) {
      const std::int64_t rows = std::min(l.visit_rows, run_end - row);
      add_visit(l, x, rows_of(a, row, rows), rows_of(b, row, rows), worker);
    }
    add_compensated(segment, segment + l.sums, worker.sums, l.sums);
  }
}

/// Place of element (j, k) of x in the loops' order, in doubles; the sums have one line more.
std::int64_t packed_index(const Layout& l, std::int64_t lines, std::int64_t j, std::int64_t k) {
  const std::int64_t group = k / kMaxRhs * kMaxRhs;
  const std::int64_t rhs = std::min(kMaxRhs, l.r - group);
  return (group * lines + j / kLine * rhs + k - group) * kLine + j % kLine;
}

}  // namespace

std::int64_t normal_workspace_bytes(std::int64_t n, std::int64_t r, int threads) {
  const Layout l = make_layout(n, r);
  return 8 * (l.x_size + l.segments * l.segment_size + threads * l.worker_size);
}

void normal_begin(const double* x, NormalWorkspace workspace) {
  assert(workspace.bytes >= normal_workspace_bytes(workspace.n, workspace.r, workspace.threads));
  const Layout l = make_layout(workspace.n, workspace.r);
  auto* packed = static_cast<double*>(workspace.data);
  std::fill_n(packed, l.x_size + l.segments * l.segment_size, 0.0);
  for (std::int64_t j = 0; j < l.n; ++j) {
    for (std::int64_t k = 0; k < l.r; ++k) packed[packed_index(l, l.lines, j, k)] = x[j * l.r + k];
  }
}

void normal_add(const SlabView& a, const SlabView& b, NormalWorkspace workspace) {
  assert(a.cols == workspace.n && b.cols == workspace.r && b.rows == a.rows);
  assert(b.type == ElementType::kFloat64);
  if (a.rows == 0 || workspace.r == 0) return;
  const Layout l = make_layout(workspace.n, workspace.r);
  const auto* x = static_cast<const double*>(workspace.data);
  const std::int64_t rows = round_up(divide_up(a.rows, l.segments), kRunRows);  // of a segment
  const auto threads = static_cast<int>(std::min<std::int64_t>(workspace.threads, divide_up(a.rows, rows)));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (std::int64_t first = 0; first < a.rows; first += rows) {
    const std::int64_t count = std::min(rows, a.rows - first);
    add_segment(l, x, rows_of(a, first, count), rows_of(b, first, count),
                make_worker(l, workspace, omp_get_thread_num()), segment_sums(l, workspace, first / rows));
  }
}

void normal_end(NormalWorkspace workspace, double* gradient, double* residual_squares) {
  const Layout l = make_layout(workspace.n, workspace.r);
  double* high = segment_sums(l, workspace, 0);
  double* low = high + l.sums;
  for (std::int64_t i = 2; i < 2 * l.segments; ++i) add_compensated(high, low, high + i * l.sums, l.sums);
  for (std::int64_t k = 0; k < l.r; ++k) {
    for (std::int64_t j = 0; j < l.n; ++j) {
      const std::int64_t from = packed_index(l, l.lines + 1, j, k);
      gradient[j * l.r + k] = high[from] + low[from];
    }
    residual_squares[k] = 0;
    for (std::int64_t i = 0; i < kLine; ++i) {
      const std::int64_t from = packed_index(l, l.lines + 1, l.lines * kLine + i, k);
      residual_squares[k] += high[from] + low[from];
    }
  }
}

}  // namespace tallsketch::host
