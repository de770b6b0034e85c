// Plan: what a run will do, decided before it does anything. Pure: no MPI, no device, no file.
// Made by the solver from measured sizes, shown by `tallsketch inspect`, unit-tested with sizes no machine here has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/sketch_spec.h"
#include "kernels/views.h"
#include "src/options.h"
#include "src/row_range.h"

namespace tallsketch {

/// Sizes and stored types of [A | b].
struct ProblemShape {
  std::int64_t m = 0;  // rows
  std::int64_t n = 0;  // columns of A
  std::int64_t r = 1;  // columns of b
  ElementType a_type = ElementType::kFloat32;
};

/// Where a rank's rows of A stay between passes.
enum class Residency { kDevice, kFile };
const char* to_word(Residency residency);

struct Plan {
  Residency residency = Residency::kFile;
  std::vector<RowRange> rank_rows;  // one a rank, whole batches each, some may be empty
  std::int64_t chunk_rows = 0;      // rows read and sketched at a time
  int passes = 1;                   // over A
  std::int64_t slab_bytes = 0;      // of the largest rank, FP32 on the device; 0 unless resident
  std::int64_t chunk_bytes = 0;     // host buffers of one chunk, all of them
  std::int64_t sketch_bytes = 0;    // d x (n + r) FP32
  std::int64_t scratch_bytes = 0;   // of the sketch kernels
  std::int64_t factor_bytes = 0;    // rank 0: QR copy and workspace
  std::int64_t backend_bytes() const { return slab_bytes + sketch_bytes + scratch_bytes + factor_bytes; }
};

/// What the plan has to know of the machine.
struct PlanLimits {
  bool cuda = false;
  std::int64_t memory_bytes = 0;   // free on the rank's backend, or --memory
  std::int64_t scratch_bytes = 0;  // of the sketch kernels, from the backend
  std::int64_t chunk_rows = 0;     // --chunk-rows, 0: choose
};

/// The sketch that the options ask for. Errors: kUsage for d <= n, a d that zeta does not divide, or sizes out of
/// range.
SketchSpec make_sketch_spec(const ProblemShape& shape, const SketchOptions& options);

/// Rows of every rank: whole batches of T rows, spread as evenly as they go, in rank order; covers [0, m) once.
std::vector<RowRange> split_rows(std::int64_t m, std::int64_t batch_rows, int ranks);

/// Errors: kMemory when even the smallest chunk does not fit, with the figures and what to change.
Plan make_plan(const ProblemShape& shape, const SketchSpec& spec, int ranks, const PlanLimits& limits);

/// One line for people.
std::string describe(const Plan& plan, const ProblemShape& shape);

/// "1.5 GiB"
std::string bytes_text(std::int64_t bytes);

}  // namespace tallsketch
