// Backend: where the arithmetic happens. Upload, sketch, reduce, factor; a new kind of machine is a new Backend.
// Made by make_backend (backend.cpp holds the only #if on the backend); driven by solver.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/sketch_spec.h"
#include "src/phase_timer.h"
#include "src/plan.h"
#include "src/row_range.h"
#include "src/sketch_timing.h"

namespace tallsketch {

class Communicator;

/// Host memory for one chunk of rows; owned by the backend, pinned where that makes uploads fast.
struct ChunkBuffer {
  void* a = nullptr;    // (rows, n) row-major, the stored element type
  double* b = nullptr;  // (rows, r) row-major
  RowRange rows;        // filled by the caller
};

/// The reduced problem in triangular form: R of the QR of the column-scaled sketch S [A | b].
struct TriangularFactor {
  std::int64_t n = 0, r = 0;
  std::vector<float> upper;   // (n + r, n + r) column-major; below the diagonal undefined
  std::vector<int> exponent;  // column j of S [A | b] was multiplied by 2^exponent[j] before the QR
};

/// What a backend is told before the first row.
struct SketchJob {
  SketchSpec spec;
  ProblemShape shape;
  Plan plan;
  RowRange rows;  // of this rank
  ScalingChoice scaling = ScalingChoice::kAuto;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;          // "host", "cuda"
  virtual std::string device() const = 0;        // for the log: "2 threads", "NVIDIA H200 #0"
  virtual std::string device_uuid() const = 0;   // empty on the host
  virtual std::int64_t free_memory() const = 0;  // bytes a rank may count on
  virtual std::int64_t scratch_bytes(const SketchSpec& spec, const ProblemShape& shape) const = 0;

  /// Allocates for the job and clears the sketch. Errors: kMemory.
  virtual void begin(const SketchJob& job) = 0;
  /// A buffer of plan.chunk_rows rows that the caller may fill now; waits until it is free.
  virtual ChunkBuffer& next_buffer() = 0;
  /// Takes over the rows of a filled buffer; every row of the rank exactly once, in any order.
  virtual void upload(const ChunkBuffer& chunk) = 0;
  /// Collective: what the local sketch has to know of the other ranks' rows (fp16: the column scales). Often nothing.
  virtual void exchange() {}
  /// All rows are uploaded: the local sketch is complete when this returns.
  virtual void sketch() = 0;
  /// Collective: sums the sketches of all ranks; every rank then holds S [A | b], unscaled.
  virtual void reduce() = 0;
  /// Whether every element of the reduced sketch is finite; the same answer on every rank.
  virtual bool sketch_is_finite() = 0;
  /// QR of the sketch, columns scaled by powers of two. Called on rank 0 alone.
  virtual TriangularFactor factor() = 0;
  /// Copy of the reduced, unscaled sketch on the host: (d, n + r) row-major. For tests and sketch files.
  virtual std::vector<float> sketch_copy() = 0;
  /// Times the sketch of a made-up (m, n) FP32 matrix beside a read-only pass over it. Needs no begin. For benchmarks.
  virtual SketchTiming time_sketch(const SketchSpec& spec, std::int64_t m, std::int64_t n, int repeats,
                                   KernelChoice kernel) = 0;
};

/// Collective. Errors: kUsage when CUDA is asked of a build without it; kCommunication for missing or shared GPUs.
std::unique_ptr<Backend> make_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer);

/// Column exponents for the QR, from the largest magnitude of every column of the sketch. exponent[j] brings column j's
/// maximum into [0.5, 1); 0 for a zero column.
std::vector<int> column_exponents(const std::vector<float>& column_max);

}  // namespace tallsketch
