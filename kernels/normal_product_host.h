// The host backend's refinement pass: from one read of A the residual b - A x, its norm, and A^T of it, in FP64.
// Called by host_backend: begin once a pass, add once a chunk, end once. The caller gives the memory.
// Needs n >= 1, r >= 0; with r = 0 nothing is read or written.
#pragma once

#include <cstdint>

#include "kernels/views.h"

namespace tallsketch::host {

/// Memory of one running pass; the same values go to begin, every add, and end.
struct NormalWorkspace {
  void* data = nullptr;  // aligned to 64 bytes
  std::int64_t bytes = 0;
  std::int64_t n = 0;
  std::int64_t r = 0;
  int threads = 1;
};

/// Bytes that NormalWorkspace::bytes must have at least.
/// Cost: r (n + 16) doubles 33 times, up to 129 times while that takes at most 8 MiB; for each thread (n + 16) r more,
/// and rows of A that take 256 KiB as FP64, or 8 rows
std::int64_t normal_workspace_bytes(std::int64_t n, std::int64_t r, int threads);

/// Starts a pass over no rows, at a point.
/// x          in (n, r) row-major host FP64; copied
/// workspace  out
void normal_begin(const double* x, NormalWorkspace workspace);

/// Adds A^T (b - A x) and the squares of b - A x of these rows.
/// a          in (rows, n) row-major host FP16, BF16, FP32 or FP64
/// b          in (rows, r) row-major host FP64; data may be null: b = 0, which gives -A^T A x and the squares of A x
/// workspace  in/out
/// Limits: entries of a are widened exactly; products and sums in FP64. A sum that overflows (squares: residuals above
///   1e154) comes out as NaN, and so does all that an infinity or a NaN of a, b or x takes part in
/// Order: a dot product has 4 sums, columns mod 4, added pairwise. Over rows: runs of 256 one after the other, each added
///   with compensation to its segment, one of up to 64 groups of consecutive rows of a chunk. Fixed by n, r and the
///   chunks, never by the number of threads; processors without FMA round differently
/// Error, to first order in u = 2^-53, for any m: a residual is within (n / 4 + 8) u (|b| + |A| |x|) of the exact one;
///   the sums are within 260 u of those of the residuals as computed, relative to the sums of magnitudes
/// Cost: one pass over a, of any width. In read-only passes over it, n = 64 ... 1000, one thread of Zen 4
///   (docs/performance.md): FP32 and FP64 1.5 to 1.8 at r = 1, 1.7 to 2.7 at r = 4; 16 bits 3.1 to 3.5 and 5.6 to 6.7.
///   Copied are the n mod 8 columns behind the last whole line of 8, the rows behind the last 8, and all of FP16 if the
///   processor has no F16C
void normal_add(const SlabView& a, const SlabView& b, NormalWorkspace workspace);

/// Writes the sums of everything added, and ends the pass.
/// gradient          out (n, r) row-major host FP64: A^T (b - A x); overwritten
/// residual_squares  out (r) host FP64: ||b - A x||^2 of each right-hand side; overwritten
void normal_end(NormalWorkspace workspace, double* gradient, double* residual_squares);

}  // namespace tallsketch::host
