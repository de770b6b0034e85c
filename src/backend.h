// Backend: where the arithmetic happens. Upload, sketch, reduce, factor; a new kind of machine is a new Backend.
// Made by make_backend (backend.cpp holds the only #if on the backend); driven by solver.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/rounded_half.h"
#include "kernels/sketch_spec.h"
#include "src/phase_timer.h"
#include "src/plan.h"
#include "src/refine.h"
#include "src/row_range.h"
#include "src/sketch_range.h"
#include "src/sketch_timing.h"
#include "src/triangular_factor.h"

namespace tallsketch {

class Communicator;

/// Host memory for one chunk of rows; owned by the backend, pinned where that makes uploads fast.
struct ChunkBuffer {
  void* a = nullptr;    // (rows, n) row-major, the stored element type
  double* b = nullptr;  // (rows, r) row-major
  RowRange rows;        // filled by the caller
};

/// What a backend is told before the first row.
struct SketchJob {
  SketchSpec spec;
  ProblemShape shape;
  Plan plan;
  RowRange rows;  // of this rank
  ScalingChoice scaling = ScalingChoice::kAuto;
  ReducePrecision reduce = ReducePrecision::kFp32;
  bool refine = false;  // passes over the same rows will follow
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;         // "host", "cuda"
  virtual std::string device() const = 0;       // for the log: "2 threads", "NVIDIA H200 #0"
  virtual std::string device_uuid() const = 0;  // empty on the host
  /// What the plan has to know of this rank: free memory, buffers, padding, scratch. chunk_rows is the caller's. Gives up
  /// an earlier job, whose memory counts as free.
  /// refine  rows that fit will be kept for the passes that follow
  virtual PlanLimits plan_limits(const SketchSpec& spec, const ProblemShape& shape, bool refine) = 0;

  /// Allocates for the job and clears the sketch; gives up an earlier job and its memory. Errors: kMemory.
  virtual void begin(const SketchJob& job) = 0;
  /// A buffer of plan.chunk_rows rows that the caller may fill now; waits until it is free.
  virtual ChunkBuffer& next_buffer() = 0;
  /// Takes over the rows of a filled buffer; every row of the rank exactly once, in any order.
  virtual void upload(const ChunkBuffer& chunk) = 0;
  /// Collective: what the local sketch has to know of the other ranks' rows (fp16: the column scales). Often nothing.
  virtual void exchange() {}
  /// All rows are uploaded: the local sketch is complete when this returns.
  virtual void sketch() = 0;
  /// Collective: sums the sketches of all ranks, in job.reduce; every rank then holds S [A | b], unscaled.
  virtual void reduce() = 0;
  /// Contributions of this rank's rows that a 16-bit sketch could not take; none elsewhere. After sketch().
  virtual RoundingLosses losses() { return {}; }
  /// What the reduced sketch says of the range of the data. Local.
  virtual SketchRange sketch_range() = 0;
  /// QR of the sketch in its own precision, columns scaled by powers of two. Called on rank 0 alone.
  virtual TriangularFactor factor() = 0;
  /// Whether the rows of the job are still there as they were stored, so that refinement need not read the source again.
  virtual bool keeps_rows() const { return false; }
  /// Starts a refinement pass: A^T (b - A x) and ||b - A x||^2 of this rank's rows; b counts as 0 without with_b.
  /// x  (n, r) row-major
  virtual void normal_begin(const std::vector<double>& x, bool with_b) = 0;
  /// Adds the rows of a filled buffer.
  virtual void normal_add(const ChunkBuffer& chunk) = 0;
  /// Adds all rows that are kept; only where keeps_rows().
  virtual void normal_add_kept() {}
  virtual NormalSums normal_end() = 0;
  /// Copy of the reduced, unscaled sketch on the host: (d, n + r) row-major, exact. For tests and sketch files.
  virtual std::vector<double> sketch_copy() = 0;
  /// Times the sketch of a made-up problem beside a read-only pass over A. Needs no begin. For benchmarks.
  /// Errors: kUsage where this backend does not do the case.
  virtual SketchTiming time_sketch(const SketchCase& timed, int repeats) = 0;
  /// The same for the refinement pass.
  virtual PassTiming time_pass(const TimedShape& shape, int repeats) = 0;
};

/// Collective. Errors: kUsage when CUDA is asked of a build without it; kCommunication for missing or shared GPUs.
std::unique_ptr<Backend> make_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer);

}  // namespace tallsketch
