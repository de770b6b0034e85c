// Two forms of the sketch, both over one strip of columns at a time, so that accumulators and rows stay in L2.
// Gather (every sketch row gets C >= 2 rows of each batch): a sketch row collects its rows in registers, and is loaded
// and stored once a batch instead of once an entry. Scatter (all else): a row is added to its zeta sketch rows.
// T is the type of the accumulators, float or double; a strip is as many bytes wide in both.
#include "kernels/sketch_host.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <omp.h>

#include "kernels/entry_table_host.h"
#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/rounding.h"
#include "kernels/signed_entry.h"
#include "kernels/sketch_rule.h"

namespace tallsketch::host {
namespace {

constexpr std::int64_t kLineBytes = 64;  // of a cache line and of a zmm register

/// Accumulators of one register.
template <class T>
constexpr std::int64_t kLane = kLineBytes / static_cast<std::int64_t>(sizeof(T));

// Chosen on Zen 4 (32 KiB L1, 1 MiB L2), zeta = 4, d = 2n, FP32, one thread; ratios to a read-only pass.
// Registers of a strip. With 4, a gather at n = 64 takes 2.5 instead of 2.0, a scatter at n = 1024 3.3 instead of 3.1.
constexpr std::int64_t kStripRegisters = 2;
constexpr std::int64_t kMinGathered =
    2;  // C from which gathering wins: n = 512 2.4 against 2.8, n = 1024 5.3 against 3.1
constexpr std::int64_t kPrefetchRows = 64;  // distance of the scatter's prefetches; 16 to 128 are alike
// Rows of a strip that are taken at a time. Gather: the lines beside the strip are still in L3 when the next strip asks
// for them (n = 512: 2048 rows 2.5, 512 or 8192 rows 3.0). Scatter: loads an accumulator strip seldom (n = 1024: 16384
// rows 3.2, 8192 rows 3.4, 512 rows 5.2).
constexpr std::int64_t kGatherVisitBytes = std::int64_t{4} << 20;
constexpr std::int64_t kScatterVisitRows = 16384;
constexpr std::int64_t kVisitEntries = std::int64_t{1} << 17;  // bounds the table: 512 KiB a thread, or one batch
constexpr std::int64_t kRunRows = 16384;                       // consecutive rows that a segment takes at a time
constexpr std::int64_t kSegmentBytes = std::int64_t{4} << 20;  // accumulators of all row segments, if more than one
constexpr std::int64_t kMaxSegments = 16;

/// Sizes that follow from the shapes and the precision; the same in every call of one sketch.
struct Layout {
  std::int64_t size;  // of an accumulator, in bytes
  std::int64_t lane;  // accumulators of a register
  std::int64_t batch_rows;
  std::int64_t gathered;          // fixed_rows_per_bucket, or 0: scatter
  std::int64_t strip;             // columns of one job
  std::int64_t strips_a, strips;  // strips of a come first, then those of b
  std::int64_t padded_a, padded;  // columns, each matrix rounded up to whole registers
  std::int64_t segments;          // row segments with accumulators of their own
  std::int64_t visit_batches;     // consecutive batches of a strip taken at a time
  std::int64_t run_batches;       // consecutive batches of a segment; a multiple of visit_batches
  std::int64_t parts;             // tasks that share the strips of a segment
  // Workspace, in bytes.
  std::int64_t accumulator_bytes;  // of one segment: strip after strip, each (d, strip columns)
  std::int64_t entry_bytes, scratch_bytes, tile_bytes;
};

Layout make_layout(const SketchSpec& spec, std::int64_t n, std::int64_t r, int threads) {
  Layout l{};
  l.size = sketch_element_size(spec.precision);
  l.lane = kLineBytes / l.size;
  l.batch_rows = spec.batch_rows;
  l.gathered = fixed_rows_per_bucket(spec) >= kMinGathered ? fixed_rows_per_bucket(spec) : 0;
  l.strip = kStripRegisters * l.lane;
  l.padded_a = round_up(n, l.lane);
  l.padded = l.padded_a + round_up(r, l.lane);
  l.strips_a = (n + l.strip - 1) / l.strip;
  l.strips = l.strips_a + (r + l.strip - 1) / l.strip;
  l.accumulator_bytes = spec.d * l.padded * l.size;
  l.segments = std::clamp<std::int64_t>(kSegmentBytes / l.accumulator_bytes, 1, kMaxSegments);
  const std::int64_t visit_rows =
      l.gathered > 0 ? std::min(kGatherVisitBytes / (l.size * n), kRunRows) : kScatterVisitRows;
  l.visit_batches = std::max<std::int64_t>(1, std::min(visit_rows, kVisitEntries / spec.zeta) / l.batch_rows);
  l.run_batches = round_up(std::max<std::int64_t>(1, kRunRows / l.batch_rows), l.visit_batches);
  l.parts = std::min(l.strips, (threads + l.segments - 1) / l.segments);
  l.entry_bytes = round_up(l.visit_batches * spec.zeta * l.batch_rows * 4, kLineBytes);
  l.scratch_bytes = round_up(table_scratch_words(spec) * 4, kLineBytes);
  l.tile_bytes = l.batch_rows * l.strip * l.size;
  return l;
}

/// What one thread owns.
template <class T>
struct Worker {
  std::uint32_t* entries;
  std::uint32_t* scratch;
  T* tile;  // (batch_rows, strip)
};

std::int64_t worker_bytes(const Layout& l) { return l.entry_bytes + l.scratch_bytes + l.tile_bytes; }

template <class T>
Worker<T> make_worker(const Layout& l, const SketchWorkspace& workspace, std::int64_t thread) {
  auto* tile = static_cast<std::byte*>(workspace.data) + l.segments * l.accumulator_bytes + thread * worker_bytes(l);
  std::byte* entries = tile + l.tile_bytes;
  std::byte* scratch = entries + l.entry_bytes;
  return {reinterpret_cast<std::uint32_t*>(entries), reinterpret_cast<std::uint32_t*>(scratch),
          reinterpret_cast<T*>(tile)};
}

/// Rows of the next job, prefetched to L2 while this one is at work. The core drops prefetches while its miss buffers
/// are full; so they are spread evenly, and a gather asks zeta times for every line (once: 2.8 read passes instead of
/// 2.0 at n = 64; hints that fill L1 too: 3.2).
struct Ahead {
  std::uintptr_t at = 0;
  std::uintptr_t pitch_bytes = 0;
};

template <int kLines>
inline __attribute__((always_inline)) void prefetch(std::uintptr_t at) {
  for (int v = 0; v < kLines; ++v) {
    __builtin_prefetch(reinterpret_cast<const void*>(at + static_cast<std::uintptr_t>(v) * kLineBytes), 0, 2);
  }
}

/// One strip of one batch.
template <class T>
struct Job {
  const T* rows;  // row `position` of the batch at rows + position * pitch
  std::int64_t pitch;
  std::int64_t lo, hi;           // positions that exist
  const std::uint32_t* entries;  // (zeta, T)
  std::int64_t batch_rows;       // T
  std::int64_t zeta;
  std::int64_t gathered;  // entries of every sketch row
  std::int64_t sketch_rows;
  T* sums;  // (sketch_rows, kLane * registers)
  Ahead ahead;
};

/// A register, read and written at any address. (Attributes are lost on template arguments, not on members.)
template <class T>
struct Register;
template <>
struct Register<float> {
  using Lanes = float __attribute__((vector_size(kLineBytes), aligned(4), may_alias));
};
template <>
struct Register<double> {
  using Lanes = double __attribute__((vector_size(kLineBytes), aligned(8), may_alias));
};

/// Every sketch row adds its rows of the batch.
template <int kRegisters, class T>
inline __attribute__((always_inline)) void gather(const Job<T>& in) {
  using Lanes = typename Register<T>::Lanes;
  const Job<T> job = in;
  std::uintptr_t ahead = job.ahead.at;
  std::int64_t asked = 0;  // times
  const std::uint32_t* entry = job.entries;
  for (std::int64_t k = 0; k < job.sketch_rows; ++k) {
    auto* to = reinterpret_cast<Lanes*>(job.sums + k * kRegisters * kLane<T>);
    Lanes sum[kRegisters];
    for (int v = 0; v < kRegisters; ++v) sum[v] = to[v];
    for (const std::uint32_t* end = entry + job.gathered; entry != end; ++entry) {
      prefetch<kRegisters>(ahead);
      const bool next_row = ++asked == job.zeta;
      ahead += next_row ? job.ahead.pitch_bytes : 0;
      asked = next_row ? 0 : asked;
      const auto* row =
          reinterpret_cast<const Lanes*>(job.rows + static_cast<std::int64_t>(entry_row(*entry)) * job.pitch);
      const T sign = with_sign(T{1}, *entry);
      for (int v = 0; v < kRegisters; ++v) sum[v] += row[v] * sign;
    }
    for (int v = 0; v < kRegisters; ++v) to[v] = sum[v];
  }
}

/// Every row is added to its zeta sketch rows.
template <int kRegisters, class T>
inline __attribute__((always_inline)) void scatter(const Job<T>& in) {
  using Lanes = typename Register<T>::Lanes;
  const Job<T> job = in;
  const auto pitch_bytes = static_cast<std::uintptr_t>(job.pitch) * sizeof(T);
  auto ahead = reinterpret_cast<std::uintptr_t>(job.rows + job.lo * job.pitch) + kPrefetchRows * pitch_bytes;
  for (std::int64_t k = job.lo; k < job.hi; ++k, ahead += pitch_bytes) {
    if (k + kPrefetchRows == job.hi) ahead = job.ahead.at;
    prefetch<kRegisters>(ahead);
    const auto* row = reinterpret_cast<const Lanes*>(job.rows + k * job.pitch);
    Lanes value[kRegisters];
    for (int v = 0; v < kRegisters; ++v) value[v] = row[v];
    for (std::int64_t t = 0; t < job.zeta; ++t) {
      const std::uint32_t entry = job.entries[t * job.batch_rows + k];
      const T sign = with_sign(T{1}, entry);
      auto* to =
          reinterpret_cast<Lanes*>(job.sums + static_cast<std::int64_t>(entry_row(entry)) * kRegisters * kLane<T>);
      for (int v = 0; v < kRegisters; ++v) to[v] += value[v] * sign;
    }
  }
}

TALLSKETCH_VECTOR_CLONES void gather_1(const Job<float>& job) { gather<1>(job); }
TALLSKETCH_VECTOR_CLONES void gather_2(const Job<float>& job) { gather<2>(job); }
TALLSKETCH_VECTOR_CLONES void gather_1(const Job<double>& job) { gather<1>(job); }
TALLSKETCH_VECTOR_CLONES void gather_2(const Job<double>& job) { gather<2>(job); }
TALLSKETCH_VECTOR_CLONES void scatter_1(const Job<float>& job) { scatter<1>(job); }
TALLSKETCH_VECTOR_CLONES void scatter_2(const Job<float>& job) { scatter<2>(job); }
TALLSKETCH_VECTOR_CLONES void scatter_1(const Job<double>& job) { scatter<1>(job); }
TALLSKETCH_VECTOR_CLONES void scatter_2(const Job<double>& job) { scatter<2>(job); }

template <class T>
void run(const Job<T>& job, std::int64_t registers) {
  using Kernel = void (*)(const Job<T>&);
  constexpr Kernel kGather[kStripRegisters] = {gather_1, gather_2};
  constexpr Kernel kScatter[kStripRegisters] = {scatter_1, scatter_2};
  (job.gathered > 0 ? kGather : kScatter)[registers - 1](job);
}

/// Copies columns [column, column + columns) of a slab's rows to the accumulators' type, and pads with zeros.
/// to  out (rows, padded)
template <class T>
inline __attribute__((always_inline)) void pack(const SlabView& slab, std::int64_t row, std::int64_t rows,
                                                std::int64_t column, std::int64_t columns, std::int64_t padded, T* to) {
  using Lanes = typename Register<T>::Lanes;
  for (std::int64_t k = 0; k < rows; ++k, to += padded) {
    const std::int64_t at = (row + k) * slab.pitch + column;
    if (columns < padded) *reinterpret_cast<Lanes*>(to + padded - kLane<T>) = Lanes{};
    if (slab.type == kElementType<T>) {
      const T* from = static_cast<const T*>(slab.data) + at;
      std::int64_t j = 0;
      for (; j + kLane<T> <= columns; j += kLane<T>) {
        *reinterpret_cast<Lanes*>(to + j) = *reinterpret_cast<const Lanes*>(from + j);
      }
      for (; j < columns; ++j) to[j] = from[j];
    } else if (slab.type == ElementType::kFloat32) {
      const float* from = static_cast<const float*>(slab.data) + at;
      for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<T>(from[j]);
    } else if (slab.type == ElementType::kFloat64) {
      const double* from = static_cast<const double*>(slab.data) + at;
      for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<T>(from[j]);
    } else if (slab.type == ElementType::kFloat16) {
      const std::uint16_t* from = static_cast<const std::uint16_t*>(slab.data) + at;
      for (std::int64_t j = 0; j < columns; ++j) to[j] = half_to_float(from[j]);
    } else {
      const std::uint16_t* from = static_cast<const std::uint16_t*>(slab.data) + at;
      for (std::int64_t j = 0; j < columns; ++j) to[j] = bfloat16_to_float(from[j]);
    }
  }
}

TALLSKETCH_VECTOR_CLONES
void pack_rows(const SlabView& slab, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
               std::int64_t padded, float* to) {
  pack(slab, row, rows, column, columns, padded, to);
}
TALLSKETCH_VECTOR_CLONES
void pack_rows(const SlabView& slab, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns,
               std::int64_t padded, double* to) {
  pack(slab, row, rows, column, columns, padded, to);
}

/// The part of a batch that a chunk holds.
struct Piece {
  std::int64_t batch;
  std::int64_t lo, hi;      // positions that exist; lo >= hi: none
  std::int64_t first_slab;  // row of the slab at position 0; negative if the chunk begins inside the batch
};

Piece make_piece(const Layout& l, const SlabView& a, std::int64_t batch) {
  const std::int64_t first = batch * l.batch_rows - a.first_row;
  return {batch, std::max<std::int64_t>(0, -first), std::min(l.batch_rows, a.rows - first), first};
}

/// First batch at or after `batch` that belongs to a segment: runs of batches are dealt to the segments in turn.
std::int64_t next_batch(const Layout& l, std::int64_t segment, std::int64_t batch) {
  const std::int64_t run = batch / l.run_batches;
  const std::int64_t ahead = (segment + l.segments - run % l.segments) % l.segments;
  return ahead == 0 ? batch : (run + ahead) * l.run_batches;
}

/// One strip of [a | b].
struct Strip {
  const SlabView* slab;
  std::int64_t column, columns, padded;
  std::int64_t sums;  // offset of its accumulators in a segment's
};

Strip make_strip(const SketchSpec& spec, const Layout& l, const SlabView& a, const SlabView& b, std::int64_t index) {
  const bool in_a = index < l.strips_a;
  const SlabView& slab = in_a ? a : b;
  const std::int64_t column = (in_a ? index : index - l.strips_a) * l.strip;
  const std::int64_t columns = std::min(l.strip, slab.cols - column);
  return {&slab, column, columns, round_up(columns, l.lane), spec.d * ((in_a ? 0 : l.padded_a) + column)};
}

Ahead make_ahead(const Strip& strip, const Piece& piece) {
  if (piece.lo >= piece.hi) return {};
  const SlabView& slab = *strip.slab;
  const std::int64_t size = element_size(slab.type);
  const std::int64_t at = ((piece.first_slab + piece.lo) * slab.pitch + strip.column) * size;
  return {reinterpret_cast<std::uintptr_t>(slab.data) + static_cast<std::uintptr_t>(at),
          static_cast<std::uintptr_t>(slab.pitch * size)};
}

/// Table of a batch.
/// entries  out (zeta, T)
void fill_table(const SketchSpec& spec, const Layout& l, const Piece& piece, std::uint32_t* entries,
                std::uint32_t* scratch) {
  if (l.gathered > 0) {
    fill_gather_table(spec, piece.batch, entries, scratch);
  } else {
    fill_scatter_table(spec, piece.batch, piece.lo, piece.hi, entries, scratch);
  }
}

/// Adds one strip of one batch to its accumulators.
template <class T>
void add_strip(const SketchSpec& spec, const Layout& l, const Strip& strip, const Piece& piece,
               const std::uint32_t* entries, T* tile, const Ahead& ahead, T* sums) {
  const SlabView& slab = *strip.slab;
  const std::int64_t padded = strip.padded;
  Job<T> job{tile, padded, piece.lo, piece.hi, entries, l.batch_rows, spec.zeta, l.gathered, spec.d, sums, ahead};
  const bool complete = l.gathered == 0 || (piece.lo == 0 && piece.hi == l.batch_rows);
  if (slab.type == kElementType<T> && strip.columns == padded && complete) {
    job.rows = static_cast<const T*>(slab.data) + piece.first_slab * slab.pitch + strip.column;
    job.pitch = slab.pitch;
  } else {
    pack_rows(slab, piece.first_slab + piece.lo, piece.hi - piece.lo, strip.column, strip.columns, padded,
              tile + piece.lo * padded);
    if (l.gathered > 0) {  // absent rows are zero rows, so that every sketch row still has its number of entries
      std::fill(tile, tile + piece.lo * padded, T{0});
      std::fill(tile + piece.hi * padded, tile + l.batch_rows * padded, T{0});
    }
  }
  run(job, padded / kLane<T>);
}

/// Adds strips [first, last) of the rows of one segment: visit by visit, strip by strip, batch by batch.
template <class T>
void add_segment(const SketchSpec& spec, const Layout& l, const SlabView& a, const SlabView& b, std::int64_t segment,
                 std::int64_t first, std::int64_t last, const Worker<T>& worker, T* sums) {
  const std::int64_t end = (a.first_row + a.rows + l.batch_rows - 1) / l.batch_rows;
  const std::int64_t table = spec.zeta * l.batch_rows;
  std::int64_t batch = next_batch(l, segment, a.first_row / l.batch_rows);
  while (batch < end) {
    const std::int64_t visit_end = std::min(end, (batch / l.visit_batches + 1) * l.visit_batches);
    for (std::int64_t k = batch; k < visit_end; ++k) {
      fill_table(spec, l, make_piece(l, a, k), worker.entries + (k - batch) * table, worker.scratch);
    }
    const std::int64_t next_visit = next_batch(l, segment, visit_end);
    for (std::int64_t s = first; s < last; ++s) {
      const Strip strip = make_strip(spec, l, a, b, s);
      const Strip next_strip = make_strip(spec, l, a, b, s + 1 < last ? s + 1 : first);
      for (std::int64_t k = batch; k < visit_end; ++k) {
        const Ahead ahead = k + 1 < visit_end
                                ? make_ahead(strip, make_piece(l, a, k + 1))
                                : make_ahead(next_strip, make_piece(l, a, s + 1 < last ? batch : next_visit));
        add_strip(spec, l, strip, make_piece(l, a, k), worker.entries + (k - batch) * table, worker.tile, ahead,
                  sums + strip.sums);
      }
    }
    batch = next_visit;
  }
}

TALLSKETCH_VECTOR_CLONES void add_to(float* to, const float* from, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) to[k] += from[k];
}
TALLSKETCH_VECTOR_CLONES void add_to(double* to, const double* from, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) to[k] += from[k];
}

template <class T>
void add_rows(const SketchSpec& spec, const SlabView& a, const SlabView& b, const SketchWorkspace& workspace) {
  const Layout l = make_layout(spec, workspace.n, workspace.r, workspace.threads);
  auto* sums = static_cast<T*>(workspace.data);
#pragma omp parallel for schedule(dynamic) num_threads(workspace.threads)
  for (std::int64_t task = 0; task < l.segments * l.parts; ++task) {
    const std::int64_t segment = task / l.parts;
    const std::int64_t part = task % l.parts;
    add_segment(spec, l, a, b, segment, l.strips * part / l.parts, l.strips * (part + 1) / l.parts,
                make_worker<T>(l, workspace, omp_get_thread_num()), sums + segment * (l.accumulator_bytes / l.size));
  }
}

template <class T>
void sum_segments(const SketchSpec& spec, const SketchWorkspace& workspace, const SketchView<T>& out) {
  assert(sizeof(T) == static_cast<std::size_t>(sketch_element_size(spec.precision)));
  assert(out.rows == spec.d && out.cols == workspace.n + workspace.r && out.pitch >= out.cols);
  const Layout l = make_layout(spec, workspace.n, workspace.r, workspace.threads);
  auto* sums = static_cast<T*>(workspace.data);
  const std::int64_t count = l.accumulator_bytes / l.size;
  const SlabView a{nullptr, 0, workspace.n, workspace.n, kElementType<T>, 0};
  const SlabView b{nullptr, 0, workspace.r, workspace.r, kElementType<T>, 0};
#pragma omp parallel for num_threads(workspace.threads)
  for (std::int64_t k = 0; k < spec.d; ++k) {
    for (std::int64_t s = 0; s < l.strips; ++s) {
      const Strip strip = make_strip(spec, l, a, b, s);
      T* from = sums + strip.sums + k * strip.padded;
      for (std::int64_t g = 1; g < l.segments; ++g) add_to(from, from + g * count, strip.padded);
      std::memcpy(out.data + k * out.pitch + (s < l.strips_a ? 0 : workspace.n) + strip.column, from,
                  static_cast<std::size_t>(strip.columns) * sizeof(T));
    }
  }
}

}  // namespace

std::int64_t sketch_workspace_bytes(const SketchSpec& spec, std::int64_t n, std::int64_t r, int threads) {
  const Layout l = make_layout(spec, n, r, threads);
  return l.segments * l.accumulator_bytes + threads * worker_bytes(l);
}

void sketch_begin(const SketchSpec& spec, std::int64_t n, std::int64_t r, SketchWorkspace workspace) {
  assert(workspace.n == n && workspace.r == r);
  assert(workspace.bytes >= sketch_workspace_bytes(spec, n, r, workspace.threads));
  const Layout l = make_layout(spec, n, r, workspace.threads);
  std::memset(workspace.data, 0, static_cast<std::size_t>(l.segments * l.accumulator_bytes));
}

void sketch_add(const SketchSpec& spec, const SlabView& a, const SlabView& b, SketchWorkspace workspace) {
  assert(a.cols == workspace.n);
  assert(workspace.r == 0 || (b.cols == workspace.r && b.rows == a.rows && b.first_row == a.first_row));
  if (a.rows == 0) return;
  if (spec.precision == SketchPrecision::kFp64) {
    add_rows<double>(spec, a, b, workspace);
  } else {
    add_rows<float>(spec, a, b, workspace);
  }
}

void sketch_end(const SketchSpec& spec, SketchWorkspace workspace, SketchView<float> out) {
  sum_segments(spec, workspace, out);
}

void sketch_end(const SketchSpec& spec, SketchWorkspace workspace, SketchView<double> out) {
  sum_segments(spec, workspace, out);
}

}  // namespace tallsketch::host
