// Plan: what a run will do, decided before it does anything. Pure: no MPI, no device, no file.
// Made by the solver from measured sizes, shown by `tallsketch inspect`, unit-tested with sizes no machine here has.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/sketch_spec.h"
#include "src/cost_model.h"
#include "src/host_memory.h"
#include "src/options.h"
#include "src/problem_shape.h"
#include "src/residency.h"
#include "src/row_range.h"

namespace tallsketch {

struct Plan {
  Residency residency = Residency::kFile;
  std::vector<RowRange> rank_rows;  // one a rank, whole batches each, some may be empty
  std::int64_t chunk_rows = 0;      // rows read and sketched at a time
  int passes = 1;                   // over A, expected
  double seconds = 0;               // predicted, start-up left out; 0: nobody predicted
  // Bytes on the busiest rank: of device memory with CUDA, of host memory without.
  std::int64_t slab_bytes = 0;     // rows kept; 0 unless resident
  std::int64_t chunk_bytes = 0;    // buffers of the chunks under way
  std::int64_t sketch_bytes = 0;   // d x (n + r), FP32 or FP64; of a Gram matrix (n + r)^2, FP64
  std::int64_t scratch_bytes = 0;  // of the sketch kernels
  std::int64_t factor_bytes = 0;   // rank 0: QR copy and workspace
  std::int64_t source_bytes = 0;   // of the files' library, without CUDA
  std::int64_t copies_bytes = 0;   // rank 0: the sketch in FP64 for checkpoints and sketch files, without CUDA
  std::int64_t host_bytes = 0;     // with CUDA: host memory, page-locked of chunks and kept rows, and the two above
  std::int64_t total_bytes() const {
    return slab_bytes + chunk_bytes + sketch_bytes + scratch_bytes + factor_bytes + source_bytes + copies_bytes;
  }
};

/// What the plan has to know of a rank's backend.
struct PlanLimits {
  std::int64_t memory_bytes = 0;       // free, or --memory; 0: unknown, nothing is refused
  std::int64_t host_memory_bytes = 0;  // with CUDA, of the host; 0: unknown
  MemoryBound memory_bound = MemoryBound::kFree, host_memory_bound = MemoryBound::kFree;  // what they come from
  std::int64_t chunk_rows = 0;                                                            // --chunk-rows, 0: choose
  // Of a chunk, where nobody chose: large enough to hide what starting a read or a kernel takes, small enough to stay out of
  // the way.
  std::int64_t chunk_bytes = std::int64_t{64} << 20;
  std::vector<RowRange> rank_rows;  // settled already, because ranks keep them; empty: choose
  // Bytes of a row of [A | b]: as it is kept, with padding (0: this job keeps no rows), and in all buffers together on
  // its way through, with rows kept and without.
  Residency kept_residency = Residency::kDevice;
  std::int64_t kept_row_bytes = 0;
  std::int64_t kept_chunk_row_bytes = 0, chunk_row_bytes = 0;
  // With CUDA, bytes of a row in page-locked host memory: as it is kept there (0: this job keeps no rows there), and in
  // all buffers that it passes.
  std::int64_t pinned_row_bytes = 0, pinned_chunk_row_bytes = 0;
  std::int64_t source_bytes = 0;  // of host memory that reading takes by itself
  int sketch_copies = 0;          // of the sketch or Gram matrix, in FP64, that rank 0 holds in host memory
  ResidencyChoice asked = ResidencyChoice::kAuto;
  std::function<std::int64_t(std::int64_t rows)> scratch_bytes = [](std::int64_t) { return 0; };  // for chunks of rows
};

/// Rows of every rank: whole batches of T rows, spread as evenly as they go, in rank order; covers [0, m) once.
std::vector<RowRange> split_rows(std::int64_t m, std::int64_t batch_rows, int ranks);

/// Errors  kMemory when even chunks of one batch do not fit, with the figures and what to change; kUsage for a residency that
///         the backend does not have
Plan make_plan(const ProblemShape& shape, const SketchSpec& spec, int ranks, const PlanLimits& limits,
               Compression compression = Compression::kSketch);

/// One line for people.
std::string describe(const Plan& plan);

}  // namespace tallsketch
