#include "src/refine_pass.h"

#include <algorithm>
#include <exception>
#include <optional>

#include <fmt/format.h>

#include "kernels/rounding.h"
#include "src/checkpoint_keeper.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/row_pass.h"
#include "src/sketch_pass.h"
#include "src/solver.h"
#include "src/stop_request.h"
#include "src/stored_sketch.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// What rank 0 asks the others for.
enum class Order : std::int64_t { kStop = 0, kPass = 1, kPassWithB = 2 };

/// The passes of all ranks. Rank 0 calls `ask`, the others `serve`; both do the same collective calls.
class Passes {
 public:
  Passes(const SketchJob& job, const BOfSketch& b, double tolerance, bool kept, RowSource& source, Backend& backend,
         const SolveContext& context, Report& report)
      : job_(job), b_(b), kept_(kept), source_(source), backend_(backend), context_(context), report_(report) {
    const double ratio = static_cast<double>(job.spec.d) / static_cast<double>(job.shape.n);
    count_.number = 0;
    count_.expected = job.compression == Compression::kGram ? kGramPasses : expected_passes(tolerance, ratio);
  }

  NormalSums ask(const std::vector<double>& x, bool with_b) {
    if (context_.keeper != nullptr) {
      if (const NormalSums* const known = context_.keeper->answer(x, with_b)) {
        report_.solver.passes += 1;  // by the run that this one goes on with
        return *known;
      }
    }
    send(with_b ? Order::kPassWithB : Order::kPass);
    std::vector<double> same = x;
    context_.comm.broadcast(same.data(), bytes_of_x());
    return pass(same, with_b);
  }
  void stop() { send(Order::kStop); }

  void serve() {
    std::vector<double> x(static_cast<std::size_t>(job_.shape.n * job_.shape.r));
    for (Order order = received(); order != Order::kStop; order = received()) {
      context_.comm.broadcast(x.data(), bytes_of_x());
      pass(x, order == Order::kPassWithB);
    }
  }

  /// Whether a pass was begun and not ended: by an error.
  bool ended_inside() const { return inside_; }

 private:
  std::int64_t bytes_of_x() const { return job_.shape.n * job_.shape.r * 8; }
  void send(Order order) { context_.comm.broadcast(&order, sizeof order); }
  Order received() {
    Order order = Order::kStop;
    context_.comm.broadcast(&order, sizeof order);
    return order;
  }

  NormalSums pass(const std::vector<double>& x, bool with_b) {
    const Communicator& comm = context_.comm;
    inside_ = true;
    context_.watchdog.enter("refine", pass_seconds(job_, kept_));
    count_.number += 1;
    NormalSums sums;
    std::int64_t agreed = Wish::kGoOn;
    context_.timer.time(Phase::kRefine, [&] {
      // Agreed on before anybody reads: a rank that fails here meets no borders, and others would wait for it there.
      comm.together([&] { backend_.normal_begin(x, with_b); });
      comm.together([&] {
        if (kept_) {
          backend_.normal_add_kept();
        } else {
          agreed = add_from_source();
        }
        sums = backend_.normal_end();
      });
      stop_if(agreed);  // without this pass, which is not complete
      check_b();
      comm.sum(sums.gradient.data(), static_cast<std::int64_t>(sums.gradient.size()));
      comm.sum(sums.residual_squares.data(), static_cast<std::int64_t>(sums.residual_squares.size()));
    });
    report_.solver.passes += 1;
    if (!kept_) report_.bytes_read += job_.shape.m * job_.shape.a_row_bytes();
    context_.progress.detail(fmt::format("refine: pass {} over A", report_.solver.passes));
    tell(job_.rows.size());
    keep(x, with_b, sums);
    inside_ = false;
    return sums;
  }

  bool looks_at_b() const { return !kept_ && count_.number == 1 && !b_.name.empty(); }

  /// Collective, after the first pass.
  void check_b() {
    if (!looks_at_b()) return;
    context_.comm.sum(b_squares_.data(), job_.shape.r);
    context_.comm.together([&] { require_same_b(b_squares_, b_.squares, b_.name); });
  }

  /// How many of this rank's rows the pass has behind it.
  void tell(std::int64_t rows) {
    const auto all = static_cast<double>(job_.rows.size());
    context_.progress.fraction("refine", all > 0 ? static_cast<double>(rows) / all : 1,
                               static_cast<double>(rows * job_.shape.a_row_bytes()), count_);
  }

  /// Returns what all ranks agreed on at a border, where there is a checkpoint.
  std::int64_t add_from_source() {
    if (looks_at_b()) b_squares_.assign(static_cast<std::size_t>(job_.shape.r), 0.0);
    const auto add = [&](const ChunkBuffer& chunk) {
      if (looks_at_b()) add_b_squares(chunk, job_.shape.r, b_squares_);
      backend_.normal_add(chunk);
      context_.watchdog.touch();
      tell(chunk.rows.end - job_.rows.begin);
    };
    const std::int64_t chunk_rows = job_.plan.chunk_rows;
    if (context_.keeper == nullptr) {
      read_chunks(job_.rows, chunk_rows, source_, backend_, context_.timer, add);
      return Wish::kGoOn;
    }
    std::int64_t most = 0;
    for (const RowRange& rows : job_.plan.rank_rows) most = std::max(most, divide_up(rows.size(), chunk_rows));
    Borders borders(context_.comm, most, [&] { return context_.keeper->wish_to_stop(); });
    try {
      read_chunks(job_.rows, chunk_rows, source_, backend_, context_.timer, add,
                  [&] { return borders.next() == Wish::kGoOn; });
    } catch (...) {
      borders.leave();
      throw;
    }
    return borders.finish();
  }

  /// With a checkpoint: collective, ends the run if that was agreed on.
  void stop_if(std::int64_t agreed) {
    if (!Wish::stops(agreed)) return;
    context_.keeper->save_passes();
    context_.keeper->stop(agreed);
  }

  /// A pass that is complete is kept for a run that goes on.
  void keep(const std::vector<double>& x, bool with_b, const NormalSums& sums) {
    if (context_.keeper == nullptr) return;
    const bool root = context_.comm.is_root();
    if (root) context_.keeper->record(x, with_b, sums);
    stop_if(context_.comm.max(context_.keeper->wish_to_stop()));
    inside_ = false;
    if (root) context_.keeper->write_if_due();
  }

  const SketchJob& job_;
  BOfSketch b_;
  bool kept_;
  RowSource& source_;
  Backend& backend_;
  const SolveContext& context_;
  Report& report_;
  PassCount count_;
  bool inside_ = false;            // a pass, of which an error may have been the end
  std::vector<double> b_squares_;  // of the first pass, where it looks at b
};

}  // namespace

RefineResult refine_on_all_ranks(const SketchJob& job, const RefineStart& start, const BOfSketch& b,
                                 const RefineOptions& options, bool kept, RowSource& source, Backend& backend,
                                 const SolveContext& context, Report& report) {
  const Communicator& comm = context.comm;
  std::optional<DeferSignals> deferring;
  if (context.keeper != nullptr) deferring.emplace();
  Passes passes(job, b, options.tolerance, kept, source, backend, context, report);
  RefineResult result;
  std::exception_ptr failure;  // rank 0's own; what a pass throws, all ranks throw
  if (comm.is_root()) {
    try {
      const auto exponents = start.factor.exponent.begin();
      const SketchedFactor factor{start.solution.preconditioner, {exponents, exponents + job.shape.n}};
      result = refine(factor, start.solution.x, start.rhs_norm, options,
                      [&](const std::vector<double>& x, bool with_b) { return passes.ask(x, with_b); });
    } catch (const std::exception& e) {
      const auto* const error = dynamic_cast<const Error*>(&e);
      // No order reaches ranks that are in the middle of a pass.
      if (passes.ended_inside() || (error != nullptr && error->agreed())) throw;
      failure = std::current_exception();
    }
    passes.stop();
  } else {
    passes.serve();
  }
  comm.together([&] {
    if (failure) std::rethrow_exception(failure);
  });
  return result;
}

}  // namespace tallsketch
