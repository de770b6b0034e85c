#include "src/sketch_pass.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "src/checkpoint_keeper.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/non_finite.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/resumable_pass.h"
#include "src/row_pass.h"
#include "src/scaled_source.h"
#include "src/solver.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// rows_read  of A, by all ranks
void count_pass(const ProblemShape& shape, std::int64_t rows_read, Report& report) {
  report.solver.passes += 1;
  report.bytes_read += rows_read * shape.a_row_bytes();
}

struct SketchPass {
  SketchRange range;              // of the reduced sketch
  std::vector<double> b_squares;  // (r): ||b||^2 over all rows; empty for kept rows
  double seconds = 0;             // of reading and working on all rows, on the slowest rank
};

/// One pass over A and the all-reduce: every rank adds S_p [A_p | b_p] (or the Gram matrix) of its rows, and S [A | b],
/// d x (n + r), is then on every rank. Collective.
SketchPass sketch_all_rows(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context,
                           Report& report) {
  const Communicator& comm = context.comm;
  SketchPass pass;
  const auto start = std::chrono::steady_clock::now();
  context.watchdog.enter("sketch", pass_seconds(job, job.kept));
  const CheckpointKeeper* const keeper = job.kept ? nullptr : context.keeper;
  std::int64_t rows_read = job.kept ? 0 : job.shape.m;
  if (keeper != nullptr) {
    ResumedRows rows = upload_resumably(job, source, backend, context);
    pass.b_squares = std::move(rows.b_squares);
    rows_read = rows.read;
  } else {
    comm.together([&] {
      backend.begin(job);
      if (job.kept) {
        backend.take_kept();
        return;
      }
      pass.b_squares = upload_rows(job, source, backend, context);
    });
  }
  backend.exchange();
  comm.together([&] {
    backend.sketch();
    if (keeper != nullptr && comm.is_root()) keeper->add_to(backend);
  });
  if (!job.kept) {
    comm.sum(pass.b_squares.data(), job.shape.r);
    if (keeper != nullptr) keeper->add_to(pass.b_squares);
    const std::chrono::nanoseconds mine = std::chrono::steady_clock::now() - start;
    pass.seconds = 1e-9 * static_cast<double>(comm.max(mine.count()));
  }
  if (rows_read > 0 || !job.from_file) count_pass(job.shape, rows_read, report);
  context.watchdog.enter("reduce");
  backend.reduce();
  comm.together([&] { pass.range = backend.sketch_range(); });
  // One answer for all ranks, whatever bits MPI gave each of them.
  pass.range.finite = comm.min(pass.range.finite ? 1 : 0) == 1;
  pass.range.safe = comm.min(pass.range.safe ? 1 : 0) == 1;
  return pass;
}

/// Powers of two, one a column of [A | b], that bring finite data back into the range of the sketch; empty where the data
/// never left it (a column of zeros). Collective, one more pass.
/// Errors  kNonFinite for NaN and Inf, and with --scaling none for whatever the sketch's precision cannot hold
std::vector<int> exponents_for_range(const SketchJob& job, const SketchRange& range, RowSource& source,
                                     const SolveContext& context, Report& report) {
  context.watchdog.enter("look for values out of range", pass_seconds(job, false));
  count_pass(job.shape, job.shape.m, report);
  if (job.scaling == ScalingChoice::kNone) {
    throw_if_out_of_range(source, job.rows, job.plan.chunk_rows, job.accumulates(), context.comm);
    return {};
  }
  const std::vector<double> largest = finite_column_maxima(source, job.rows, job.plan.chunk_rows, context.comm);
  const Magnitudes safe = safe_magnitudes(job.accumulates());
  const bool in_range =
      std::all_of(largest.begin(), largest.end(), [&](double value) { return value == 0 || safe.hold(value); });
  // A 16-bit sketch of data in range that overflows has had its columns scaled already: more scaling changes nothing.
  if (in_range && (range.finite || is_half(job.accumulates()))) return {};
  report.scaling = to_word(ScalingChoice::kAuto);
  report.warnings.push_back(
      fmt::format("columns scaled by powers of two, because values of A or b leave the range of an {}; A was read "
                  "twice more for that",
                  describe_compression(job)));
  context.progress.warning(report.warnings.back());
  return scaling_exponents(largest, job.shape);
}

/// What a 16-bit sketch lost on all ranks, for the report and, if it is anything, as a warning. Collective.
void count_losses(const SketchJob& job, Backend& backend, const Communicator& comm, Report& report) {
  RoundingLosses mine;
  comm.together([&] { mine = backend.losses(); });
  std::array<std::int64_t, 2> all = {static_cast<std::int64_t>(mine.overflowed),
                                     static_cast<std::int64_t>(mine.flushed)};
  comm.sum(all.data(), 2);
  const auto [overflowed, flushed] = all;
  report.losses = {static_cast<unsigned long long>(overflowed), static_cast<unsigned long long>(flushed)};
  if (overflowed == 0 && flushed == 0) return;
  const auto contributions =
      static_cast<double>(job.shape.m) * static_cast<double>(job.shape.n) * static_cast<double>(job.spec.zeta);
  report.warnings.push_back(
      fmt::format("{} sketch: of {:.3g} contributions {} overflowed and {} that were not zero became zero; "
                  "{}--precision fp32 loses none",
                  to_word(job.spec.precision), contributions, overflowed, flushed,
                  job.scaling == ScalingChoice::kNone ? "--scaling auto loses fewer, " : ""));
}

void require_finite(const SketchJob& job, const SketchPass& pass) {
  require(pass.range.finite, ErrorKind::kNonFinite,
          fmt::format("every entry of A and b is in range, but their {} overflowed; {}", describe_compression(job),
                      job.scaling == ScalingChoice::kNone ? "use --scaling auto, or scale the largest columns down"
                                                          : "use --precision fp32"));
}

}  // namespace

double pass_seconds(const SketchJob& job, bool kept) {
  // Bytes/s: a tenth of what one loaded core of the slowest machine tried reads from files; a sixth of what it reads of memory.
  constexpr double kSlowestRead = 0.2e9, kSlowestMemory = 1e9;
  const auto bytes = static_cast<double>(job.plan.rank_rows.front().size() * job.shape.a_row_bytes());
  return bytes / (kept ? kSlowestMemory : kSlowestRead);
}

std::vector<double> norms_of_b(const std::vector<double>& squares, const std::vector<int>& exponents, std::int64_t n) {
  std::vector<double> norms;
  for (std::size_t k = 0; k < squares.size(); ++k) {
    const int exponent = exponents.empty() ? 0 : exponents[static_cast<std::size_t>(n) + k];
    const bool known = std::isfinite(squares[k]);
    norms.push_back(known ? std::ldexp(std::sqrt(squares[k]), -exponent) : std::numeric_limits<double>::quiet_NaN());
  }
  return norms;
}

std::string describe_compression(const SketchJob& job) {
  if (job.compression == Compression::kGram) return "FP64 Gram matrix";
  return fmt::format("{} sketch", to_word(job.spec.precision));
}

void take_chunk(const char* stage, const SketchJob& job, const ChunkBuffer& chunk, std::int64_t done, std::int64_t all,
                Backend& backend, const SolveContext& context) {
  backend.upload(chunk);
  context.watchdog.touch();
  context.progress.fraction(stage, static_cast<double>(done) / static_cast<double>(all),
                            static_cast<double>(done) * static_cast<double>(job.shape.a_row_bytes()));
}

std::vector<double> upload_rows(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context,
                                bool known) {
  std::vector<double> b_squares(static_cast<std::size_t>(job.shape.r), 0.0);
  read_chunks(job.rows, job.plan.chunk_rows, source, backend, context.timer, [&](ChunkBuffer chunk) {
    add_b_squares(chunk, job.shape.r, b_squares);
    chunk.known = known;
    take_chunk(known ? "read" : "sketch", job, chunk, chunk.rows.end - job.rows.begin, job.rows.size(), backend,
               context);
  });
  return b_squares;
}

FinishedSketch sketch_in_range(const SketchJob& job, const std::vector<double>& b_norms, RowSource& source,
                               Backend& backend, const SolveContext& context, Report& report) {
  SketchPass pass;
  FinishedSketch sketch;
  if (context.keeper != nullptr) sketch.exponents = context.keeper->exponents();
  if (sketch.exponents.empty()) {
    pass = sketch_all_rows(job, source, backend, context, report);
    if (!pass.range.finite || !pass.range.safe) {
      sketch.exponents = exponents_for_range(job, pass.range, source, context, report);
      if (context.keeper != nullptr && !sketch.exponents.empty())
        context.keeper->begin_scaled(sketch.exponents, report.warnings);
    }
  } else {
    report.scaling = to_word(ScalingChoice::kAuto);  // as the run found that this goes on with
  }
  if (!sketch.exponents.empty()) {
    ScaledSource scaled(source, sketch.exponents);
    SketchJob again = job;
    again.kept = false;
    again.encoding = scaled.encoding();
    pass = sketch_all_rows(again, scaled, backend, context, report);
  }
  count_losses(job, backend, context.comm, report);  // of the last pass, which is the one that counts
  context.comm.together([&] { require_finite(job, pass); });
  sketch.seconds = pass.seconds;
  sketch.b_norms = pass.b_squares.empty() ? b_norms : norms_of_b(pass.b_squares, sketch.exponents, job.shape.n);
  sketch.b_squares = std::move(pass.b_squares);
  for (const double norm : sketch.b_norms) sketch.b_norm = std::hypot(sketch.b_norm, norm);
  return sketch;
}

std::vector<double> residual_by_sketch(const FinishedSketch& sketch, const ProblemShape& shape,
                                       const std::vector<double>& x, Backend& backend) {
  const auto n = static_cast<std::size_t>(shape.n), r = static_cast<std::size_t>(shape.r);
  const std::vector<int>& e = sketch.exponents;
  std::vector<double> scaled = x;
  for (std::size_t i = 0; i < x.size() && !e.empty(); ++i) scaled[i] = std::ldexp(x[i], e[n + i % r] - e[i / r]);
  std::vector<double> residual = backend.sketch_residual(scaled);
  for (std::size_t i = 0; i < residual.size() && !e.empty(); ++i) residual[i] = std::ldexp(residual[i], -e[n + i % r]);
  return residual;
}

void add_exponents(const std::vector<int>& exponents, TriangularFactor& factor) {
  for (std::size_t j = 0; j < exponents.size(); ++j) factor.exponent[j] += exponents[j];
}

}  // namespace tallsketch
