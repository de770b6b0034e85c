// Backend: where the arithmetic happens. Upload, sketch, reduce, factor; a new kind of machine is a new Backend.
// Made by make_backend (backend.cpp holds the only #if on the backend); driven by solver.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/check_rows.h"
#include "kernels/encoding.h"
#include "kernels/rounded_half.h"
#include "kernels/sketch_spec.h"
#include "src/cost_model.h"
#include "src/made_up_problem.h"
#include "src/phase_timer.h"
#include "src/plan.h"
#include "src/rank_place.h"
#include "src/reduce_timing.h"
#include "src/refine.h"
#include "src/row_range.h"
#include "src/sketch_range.h"
#include "src/sketch_timing.h"
#include "src/triangular_factor.h"
#include "src/version.h"

namespace tallsketch {

class Communicator;

/// Host memory for one chunk of rows; owned by the backend, pinned where that makes uploads fast.
struct ChunkBuffer {
  void* a = nullptr;    // as the job's encoding says: (rows, n) row-major, or by columns
  double* b = nullptr;  // (rows, r) row-major
  RowRange rows;
  std::size_t lane = 0;  // the backend's own
  bool known = false;    // their share of the sketch comes by add_partial: they are kept, if rows are, and no more
};

/// What a backend is told before the first row.
struct SketchJob {
  SketchSpec spec;
  ProblemShape shape;
  Encoding encoding = plain_encoding(shape.a_type);  // of A in chunks
  std::int64_t source_bytes = 0;                     // of memory that reading takes by itself
  bool from_file = false;                            // its sketch is a sketch file's
  int sketch_copies = 0;                             // in FP64, that rank 0 holds for checkpoints and sketch files
  Plan plan = {};
  RowRange rows = {};  // of this rank
  ScalingChoice scaling = ScalingChoice::kAuto;
  ReducePrecision reduce = ReducePrecision::kFp32;
  bool refine = false;  // passes over the same rows will follow
  Compression compression = Compression::kSketch;
  CheckRows held_back = {};  // of the sketch: what judges x
  bool kept = false;         // the rows that the last job kept are this one's: nothing is uploaded

  /// The number format whose range the data must fit.
  SketchPrecision accumulates() const {
    return compression == Compression::kGram ? SketchPrecision::kFp64 : spec.precision;
  }
};

/// How the reduced problem becomes triangular.
struct FactorChoice {
  FactorMethod method = FactorMethod::kQr;
  CheckRows unused;  // rows of the sketch that are left out
  double ridge = 0;  // lambda: the rows sqrt(lambda) I are appended to A, zeros to b; to a scaled A as it asks for
  std::vector<int> exponents;  // column j of [A | b] was multiplied by 2^exponents[j]; empty: by 1
};

/// What a plan asks: a backend, or figures of a machine that is not here.
class Planner {
 public:
  virtual ~Planner() = default;
  /// What the plan has to know of this rank: free memory, buffers, padding, scratch. Gives up an earlier job, but for
  /// its rows with job.kept; their memory and all else counts as free.
  /// job  its plan and rows are not known yet
  virtual PlanLimits plan_limits(const SketchJob& job) = 0;
  /// What the steps of a solve take on this rank, for the choice between them.
  /// rows  of this rank
  virtual SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const = 0;
};

class Backend : public Planner {
 public:
  virtual const char* name() const = 0;  // "host", "cuda"
  virtual RankPlace place() const = 0;
  std::string device() const { return place().label(); }
  /// Of the machine's, that the arithmetic is done with; for log and report.
  virtual std::vector<Library> libraries() const { return {}; }

  /// Allocates for the job and clears the sketch; gives up an earlier job and its memory, but for its rows with job.kept.
  /// Errors: kMemory.
  virtual void begin(const SketchJob& job) = 0;
  /// A buffer for these rows, at most plan.chunk_rows, that the caller fills now; waits until it is free. It is the
  /// caller's until upload or normal_add, and still holds its rows until `lanes` further buffers were asked for.
  virtual ChunkBuffer& next_buffer(RowRange rows) = 0;
  virtual int lanes() const = 0;
  /// Takes over the rows of a filled buffer; every row of the rank exactly once, in any order. May return before the
  /// device is done.
  virtual void upload(const ChunkBuffer& chunk) = 0;
  /// With job.kept, instead of uploads: takes all kept rows.
  virtual void take_kept() {}
  /// Collective: what the local sketch has to know of the other ranks' rows (fp16: the column scales). Often nothing.
  virtual void exchange() {}
  /// All rows are uploaded: the local sketch is complete when this returns.
  virtual void sketch() = 0;
  /// After sketch(): adds to the local sketch (or Gram matrix) what others made of rows that are not uploaded, or known.
  /// sketch  as sketch_copy gives it
  virtual void add_partial(const std::vector<double>& sketch) = 0;
  /// After sketch(), instead of what follows: the sketch is of no rows again, and more are uploaded. Not of 16-bit sketches.
  virtual void restart_sketch() = 0;
  /// Collective: sums the sketches of all ranks, in job.reduce (Gram matrices: FP64); every rank then holds S [A | b],
  /// unscaled.
  virtual void reduce() = 0;
  /// Contributions of this rank's rows that a 16-bit sketch could not take; none elsewhere. After sketch().
  virtual RoundingLosses losses() { return {}; }
  /// What the reduced sketch says of the range of the data. Local.
  virtual SketchRange sketch_range() = 0;
  /// The triangle of the reduced problem, columns scaled by powers of two: by Householder QR of the sketch in its own
  /// precision, or by Cholesky of the sketch's FP64 Gram matrix; of a Gram job always by Cholesky. Rank 0 alone.
  /// Returns nothing where Cholesky meets a pivot that is not positive
  virtual std::optional<TriangularFactor> factor(const FactorChoice& choice) = 0;
  /// S (b - A x), of the reduced sketch and with its 1 / sqrt(zeta): (d, r) row-major FP64. Rank 0 alone.
  /// x  (n, r) row-major, finite
  virtual std::vector<double> sketch_residual(const std::vector<double>& x) = 0;
  /// Whether the rows of the job are still there as they were uploaded, so that nobody need read the source again.
  virtual bool keeps_rows() const { return false; }
  /// Benchmarks: after begin, instead of uploads, rows that are made where they are kept; take_kept follows. Adds ||b||^2 of
  /// this rank's rows. Errors: kUsage where the plan keeps no rows
  virtual void make_up(const MadeUpProblem& problem, std::vector<double>& b_squares) = 0;
  /// Seconds of a read-only pass over the kept rows of A: the floor that benchmarks divide by. Median of `repeats`.
  virtual double read_floor(int repeats) = 0;
  /// The rival: x by Householder QR in FP64 of a copy of the kept rows, of one rank alone.
  /// seconds  out; without the copy. Errors: kMemory
  virtual std::vector<double> solve_by_qr(double& seconds) = 0;
  /// Starts a refinement pass: A^T (b - A x) and ||b - A x||^2 of this rank's rows; b counts as 0 without with_b.
  /// x  (n, r) row-major
  virtual void normal_begin(const std::vector<double>& x, bool with_b) = 0;
  /// Adds the rows of a filled buffer. May return before the device is done.
  virtual void normal_add(const ChunkBuffer& chunk) = 0;
  /// Adds all rows that are kept; only where keeps_rows().
  virtual void normal_add_kept() {}
  virtual NormalSums normal_end() = 0;
  /// Copy of the reduced, unscaled sketch on the host: (d, n + r) row-major, exact. For sketch files, checkpoints,
  /// studies and tests.
  virtual std::vector<double> sketch_copy() = 0;
  /// Times the sketch of a made-up problem beside a read-only pass over A. Needs no begin. For benchmarks.
  /// Errors: kUsage where this backend does not do the case.
  virtual SketchTiming time_sketch(const SketchCase& timed, int repeats) = 0;
  /// The same for the refinement pass.
  virtual PassTiming time_pass(const TimedShape& shape, int repeats) = 0;
  /// Collective: times the all-reduce of a made-up sketch, and checks it. For benchmarks.
  virtual ReduceTiming time_reduce(const ReduceCase& timed, int repeats) = 0;
  /// Seconds to copy so many bytes from page-locked host memory to the device, with nothing beside it; nothing where rows
  /// are not copied. For benchmarks.
  virtual std::optional<double> copy_seconds(std::int64_t bytes) {
    static_cast<void>(bytes);
    return std::nullopt;
  }
};

/// Collective. Errors: kUsage when CUDA is asked of a build without it; kCommunication for missing or shared GPUs.
std::unique_ptr<Backend> make_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer);

}  // namespace tallsketch
