#include "src/host_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <variant>

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernels/normal_product_host.h"
#include "kernels/sketch_host.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/half_reduce.h"
#include "src/host_buffer.h"
#include "src/reduced_solver.h"

namespace tallsketch {

namespace {

class HostBackend final : public Backend {
 public:
  HostBackend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer)
      : comm_(comm),
        timer_(timer),
        threads_(host_threads(comm)),
        memory_limit_(options.memory_bytes),
        kernel_(options.kernel) {}

  const char* name() const override { return "host"; }
  std::string device() const override { return fmt::format("{} thread{}", threads_, threads_ == 1 ? "" : "s"); }
  std::string device_uuid() const override { return ""; }
  PlanLimits plan_limits(const SketchSpec& spec, const ProblemShape& shape, bool refine) override {
    release();  // what an earlier job held is free for this one
    PlanLimits limits;
    limits.memory_bytes =
        memory_limit_ > 0 ? static_cast<std::int64_t>(memory_limit_) : free_host_memory() / comm_.node_size();
    limits.scratch_bytes = [this, spec, shape, refine](std::int64_t) {
      return host::sketch_workspace_bytes(spec, shape.n, shape.r, threads_) +
             (refine ? host::normal_workspace_bytes(shape.n, shape.r, threads_) : 0);
    };
    return limits;
  }

  void begin(const SketchJob& job) override {
    require(!is_half(job.spec.precision), ErrorKind::kUsage,
            fmt::format("--precision {} runs on GPUs only, where it saves time; on the host backend use fp32",
                        to_word(job.spec.precision)));
    release();
    job_ = job;
    const ProblemShape& shape = job.shape;
    const std::int64_t rows = job.plan.chunk_rows;
    a_ = HostBuffer(rows * shape.n * element_size(shape.a_type));
    b_ = HostBuffer(rows * shape.r * element_size(ElementType::kFloat64));
    require(kernel_ == KernelChoice::kAuto, ErrorKind::kUsage,
            "--kernel chooses between GPU kernels; the host backend has one");
    const std::int64_t scratch = host::sketch_workspace_bytes(job.spec, shape.n, shape.r, threads_);
    scratch_ = HostBuffer(scratch);
    workspace_ = {scratch_.data(), scratch, shape.n, shape.r, threads_};
    const auto elements = static_cast<std::size_t>(job.spec.d * (shape.n + shape.r));
    if (job.spec.precision == SketchPrecision::kFp64) {
      sketch_ = std::vector<double>(elements);
    } else {
      sketch_ = std::vector<float>(elements);
    }
    host::sketch_begin(job.spec, shape.n, shape.r, workspace_);
    buffer_ = {a_.data(), reinterpret_cast<double*>(b_.data()), {}};
  }

  ChunkBuffer& next_buffer() override { return buffer_; }

  void upload(const ChunkBuffer& chunk) override {
    timer_.time(Phase::kSketch, [&] {
      const ProblemShape& shape = job_.shape;
      const std::int64_t rows = chunk.rows.size();
      const SlabView a{chunk.a, rows, shape.n, shape.n, shape.a_type, chunk.rows.begin};
      const SlabView b{chunk.b, rows, shape.r, shape.r, ElementType::kFloat64, chunk.rows.begin};
      host::sketch_add(job_.spec, a, b, workspace_);
    });
  }

  void sketch() override {
    const std::int64_t cols = job_.shape.n + job_.shape.r;
    const auto sum_up = [&]<class T>(std::vector<T>& sketch) {
      host::sketch_end(job_.spec, workspace_, SketchView<T>{sketch.data(), job_.spec.d, cols, cols});
    };
    timer_.time(Phase::kSketch, [&] { std::visit(sum_up, sketch_); });
  }

  void reduce() override {
    const auto sum = [&](auto& sketch) { comm_.sum(sketch.data(), static_cast<std::int64_t>(sketch.size())); };
    timer_.time(Phase::kReduce, [&] {
      if (job_.reduce == ReducePrecision::kFp16) {  // of FP32 sketches only
        sum_in_halves(comm_, std::get<std::vector<float>>(sketch_), job_.spec.d, job_.shape.n, job_.shape.r);
      } else {
        std::visit(sum, sketch_);
      }
    });
  }

  SketchRange sketch_range() override {
    const auto judge = [&](const auto& sketch) {
      const bool finite = std::all_of(sketch.begin(), sketch.end(), [](auto value) { return std::isfinite(value); });
      return judge_range(column_maxima(sketch, job_.spec.d, job_.shape.n + job_.shape.r), finite, job_.spec.precision);
    };
    return std::visit(judge, sketch_);
  }

  TriangularFactor factor() override {
    const double scale = 1 / std::sqrt(double(job_.spec.zeta));
    const auto qr = [&](const auto& s) { return qr_of_sketch(s, job_.spec.d, job_.shape.n, job_.shape.r, scale); };
    return std::visit(qr, sketch_);
  }

  void normal_begin(const std::vector<double>& x, bool with_b) override {
    const ProblemShape& shape = job_.shape;
    if (normal_scratch_.bytes() == 0) {
      normal_scratch_ = HostBuffer(host::normal_workspace_bytes(shape.n, shape.r, threads_));
    }
    with_b_ = with_b;
    host::normal_begin(x.data(), normal_workspace());
  }

  void normal_add(const ChunkBuffer& chunk) override {
    const ProblemShape& shape = job_.shape;
    const std::int64_t rows = chunk.rows.size();
    host::normal_add({chunk.a, rows, shape.n, shape.n, shape.a_type, chunk.rows.begin},
                     {with_b_ ? chunk.b : nullptr, rows, shape.r, shape.r, ElementType::kFloat64, chunk.rows.begin},
                     normal_workspace());
  }

  NormalSums normal_end() override {
    NormalSums sums{std::vector<double>(static_cast<std::size_t>(job_.shape.n * job_.shape.r)),
                    std::vector<double>(static_cast<std::size_t>(job_.shape.r))};
    host::normal_end(normal_workspace(), sums.gradient.data(), sums.residual_squares.data());
    return sums;
  }

  std::vector<double> sketch_copy() override {
    return std::visit([](const auto& sketch) { return std::vector<double>(sketch.begin(), sketch.end()); }, sketch_);
  }

  SketchTiming time_sketch(const SketchCase& timed, int repeats) override {
    require(timed.family != BenchFamily::kFlashBlockRow, ErrorKind::kUsage,
            "--family flashblockrow is measured on GPUs only");
    require(!is_half(timed.spec.precision), ErrorKind::kUsage,
            fmt::format("--precision {} is measured on GPUs only", to_word(timed.spec.precision)));
    require(timed.kernel == BenchKernel::kAuto, ErrorKind::kUsage,
            "--kernel chooses between GPU kernels; the host has one, --kernel auto");
    return time_host_sketch(timed.spec, timed.shape, repeats, threads_);
  }

  PassTiming time_pass(const TimedShape& shape, int repeats) override {
    return time_host_pass(shape, repeats, threads_);
  }

 private:
  /// Gives the memory of the last job back, before that of the next is asked for.
  void release() {
    a_ = {};
    b_ = {};
    scratch_ = {};
    normal_scratch_ = {};
    sketch_ = {};
  }
  host::NormalWorkspace normal_workspace() {
    return {normal_scratch_.data(), normal_scratch_.bytes(), job_.shape.n, job_.shape.r, threads_};
  }

  const Communicator& comm_;
  PhaseTimer& timer_;
  int threads_;
  std::uint64_t memory_limit_;
  KernelChoice kernel_;
  SketchJob job_;
  HostBuffer a_, b_, scratch_, normal_scratch_;
  bool with_b_ = true;  // of the refinement pass under way
  host::SketchWorkspace workspace_;
  std::variant<std::vector<float>, std::vector<double>> sketch_;  // (d, n + r), as the spec's precision asks
  ChunkBuffer buffer_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer) {
  return std::make_unique<HostBackend>(options, comm, timer);
}

int host_threads(const Communicator& comm) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) {
    return std::clamp(omp_get_max_threads(), 1, std::max(1, omp_get_num_procs()));
  }
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int all = omp_get_num_procs();
  const int mine = sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : all;
  // Bound to a part of the machine, the launcher has shared the cores out; bound to all of it, the ranks share them.
  const auto online = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return std::max(1, mine < online ? mine : mine / comm.node_size());
}

}  // namespace tallsketch
