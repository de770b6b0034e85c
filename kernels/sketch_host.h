// The host backend's sketch: adds S [A | b] of chunks of rows to accumulators, then sums them into the result.
// Called by host_backend and the host benchmarks: begin once, add once a chunk, end once. The caller gives the memory.
// Needs a valid SketchSpec with precision kFp32 or kFp64; n >= 1, r >= 0.
#pragma once

#include <cstdint>

#include "kernels/sketch_spec.h"
#include "kernels/views.h"

namespace tallsketch::host {

/// Memory of one running sketch; the same values go to begin, every add, and end.
struct SketchWorkspace {
  void* data = nullptr;  // aligned to 64 bytes
  std::int64_t bytes = 0;
  std::int64_t n = 0;
  std::int64_t r = 0;
  int threads = 1;
};

/// Bytes that SketchWorkspace::bytes must have at least.
/// Cost: accumulators of d * (n + r) floats or doubles (columns rounded up to 64 bytes), repeated up to 16 times while they take at most
/// 4 MiB together; for each thread up to 131072 table entries, or those of one batch, and one batch's rows of 128
/// bytes
std::int64_t sketch_workspace_bytes(const SketchSpec& spec, std::int64_t n, std::int64_t r, int threads);

/// Starts a sketch of no rows: zeroes the accumulators.
void sketch_begin(const SketchSpec& spec, std::int64_t n, std::int64_t r, SketchWorkspace workspace);

/// Adds S * [a | b] of these rows, without the factor 1 / sqrt(zeta).
/// a          in (rows, n) row-major host FP16, BF16, FP32 or FP64
/// b          in (rows, r) row-major host FP16, BF16, FP32 or FP64; same rows and first_row as a; ignored if r = 0
/// workspace  in/out
/// Limits: entries are rounded to the spec's precision one by one (FP64: never), then added in it
/// Order: fixed by the spec, the shapes and the chunks, never by the number of threads
/// Cost: FP32 2.0 to 3.1 read-only passes over a at d = 2n, zeta = 4, n = 64 ... 1024 (docs/performance.md)
void sketch_add(const SketchSpec& spec, const SlabView& a, const SlabView& b, SketchWorkspace workspace);

/// Writes the sum of everything added.
/// out  out (d, n + r) row-major host, the type of the spec's precision, pitch >= n + r; columns [0, n) from a, the others from b; overwritten
void sketch_end(const SketchSpec& spec, SketchWorkspace workspace, SketchView<float> out);
void sketch_end(const SketchSpec& spec, SketchWorkspace workspace, SketchView<double> out);

}  // namespace tallsketch::host
