#include "src/refine_pass.h"

#include <exception>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/row_pass.h"
#include "src/sketch_pass.h"
#include "src/solver.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// What rank 0 asks the others for.
enum class Order : std::int64_t { kStop = 0, kPass = 1, kPassWithB = 2 };

/// The passes of all ranks. Rank 0 calls `ask`, the others `serve`; both do the same collective calls.
class Passes {
 public:
  Passes(const SketchJob& job, double tolerance, bool kept, RowSource& source, Backend& backend,
         const SolveContext& context, Report& report)
      : job_(job), kept_(kept), source_(source), backend_(backend), context_(context), report_(report) {
    const double ratio = static_cast<double>(job.spec.d) / static_cast<double>(job.shape.n);
    count_.number = 0;
    count_.expected = job.compression == Compression::kGram ? kGramPasses : expected_passes(tolerance, ratio);
  }

  NormalSums ask(const std::vector<double>& x, bool with_b) {
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
    context_.watchdog.enter("refine", pass_seconds(job_));
    count_.number += 1;
    NormalSums sums;
    context_.timer.time(Phase::kRefine, [&] {
      comm.together([&] {
        backend_.normal_begin(x, with_b);
        if (kept_) {
          backend_.normal_add_kept();
        } else {
          add_from_source();
        }
        sums = backend_.normal_end();
      });
      comm.sum(sums.gradient.data(), static_cast<std::int64_t>(sums.gradient.size()));
      comm.sum(sums.residual_squares.data(), static_cast<std::int64_t>(sums.residual_squares.size()));
    });
    report_.solver.passes += 1;
    if (!kept_) report_.bytes_read += job_.shape.m * job_.shape.a_row_bytes();
    context_.progress.detail(fmt::format("refine: pass {} over A", report_.solver.passes));
    tell(job_.rows.size());
    return sums;
  }

  /// How many of this rank's rows the pass has behind it.
  void tell(std::int64_t rows) {
    const auto all = static_cast<double>(job_.rows.size());
    context_.progress.fraction("refine", all > 0 ? static_cast<double>(rows) / all : 1,
                               static_cast<double>(rows * job_.shape.a_row_bytes()), count_);
  }

  void add_from_source() {
    read_chunks(job_.rows, job_.plan.chunk_rows, source_, backend_, context_.timer, [&](const ChunkBuffer& chunk) {
      backend_.normal_add(chunk);
      context_.watchdog.touch();
      tell(chunk.rows.end - job_.rows.begin);
    });
  }

  const SketchJob& job_;
  bool kept_;
  RowSource& source_;
  Backend& backend_;
  const SolveContext& context_;
  Report& report_;
  PassCount count_;
};

}  // namespace

RefineResult refine_on_all_ranks(const SketchJob& job, const RefineStart& start, const RefineOptions& options,
                                 bool kept, RowSource& source, Backend& backend, const SolveContext& context,
                                 Report& report) {
  const Communicator& comm = context.comm;
  Passes passes(job, options.tolerance, kept, source, backend, context, report);
  RefineResult result;
  std::exception_ptr failure;  // rank 0's own; what a pass throws, all ranks throw
  if (comm.is_root()) {
    try {
      const auto exponents = start.factor.exponent.begin();
      const SketchedFactor factor{start.solution.preconditioner, {exponents, exponents + job.shape.n}};
      result = refine(factor, start.solution.x, start.rhs_norm, options,
                      [&](const std::vector<double>& x, bool with_b) { return passes.ask(x, with_b); });
    } catch (const Error& e) {
      if (e.agreed()) throw;
      failure = std::current_exception();
    } catch (const std::exception&) {
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
