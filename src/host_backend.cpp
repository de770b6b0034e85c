#include "src/host_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <fmt/format.h>

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
  PlanLimits plan_limits(const SketchSpec& spec, const ProblemShape& shape) const override {
    PlanLimits limits;
    limits.memory_bytes =
        memory_limit_ > 0 ? static_cast<std::int64_t>(memory_limit_) : free_host_memory() / comm_.node_size();
    limits.scratch_bytes = [this, spec, shape](std::int64_t) {
      return host::sketch_workspace_bytes(spec, shape.n, shape.r, threads_);
    };
    return limits;
  }

  void begin(const SketchJob& job) override {
    require(job.spec.precision == SketchPrecision::kFp32, ErrorKind::kUsage,
            fmt::format("--precision {} runs on GPUs only, where it saves time; on the host backend use fp32",
                        to_word(job.spec.precision)));
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
    sketch_.assign(static_cast<std::size_t>(job.spec.d * (shape.n + shape.r)), 0.0F);
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
    timer_.time(Phase::kSketch, [&] {
      const std::int64_t cols = job_.shape.n + job_.shape.r;
      host::sketch_end(job_.spec, workspace_, {sketch_.data(), job_.spec.d, cols, cols});
    });
  }

  void reduce() override {
    timer_.time(Phase::kReduce, [&] {
      if (job_.reduce == ReducePrecision::kFp16) {
        sum_in_halves(comm_, sketch_, job_.spec.d, job_.shape.n, job_.shape.r);
      } else {
        comm_.sum(sketch_.data(), static_cast<std::int64_t>(sketch_.size()));
      }
    });
  }

  SketchRange sketch_range() override {
    const std::vector<float> largest = column_maxima(sketch_, job_.spec.d, job_.shape.n + job_.shape.r);
    return {std::all_of(sketch_.begin(), sketch_.end(), [](float value) { return std::isfinite(value); }),
            std::any_of(largest.begin(), largest.end(), [](float value) { return value < kTinyColumn; })};
  }

  TriangularFactor factor() override {
    return qr_of_sketch(sketch_, job_.spec.d, job_.shape.n, job_.shape.r, 1 / std::sqrt(double(job_.spec.zeta)));
  }

  std::vector<float> sketch_copy() override { return sketch_; }

  SketchTiming time_sketch(const SketchCase& timed, int repeats) override {
    require(timed.family != BenchFamily::kFlashBlockRow, ErrorKind::kUsage,
            "--family flashblockrow is measured on GPUs only");
    require(timed.spec.precision == SketchPrecision::kFp32, ErrorKind::kUsage,
            fmt::format("--precision {} is measured on GPUs only", to_word(timed.spec.precision)));
    require(timed.kernel == BenchKernel::kAuto, ErrorKind::kUsage,
            "--kernel chooses between GPU kernels; the host has one, --kernel auto");
    return time_host_sketch(timed.spec, timed.shape, repeats, threads_);
  }

  PassTiming time_pass(const TimedShape&, int) override {
    throw Error(ErrorKind::kUsage, "bench passes measures GPUs only yet; use --backend cuda on a machine that has one");
  }

 private:
  const Communicator& comm_;
  PhaseTimer& timer_;
  int threads_;
  std::uint64_t memory_limit_;
  KernelChoice kernel_;
  SketchJob job_;
  HostBuffer a_, b_, scratch_;
  host::SketchWorkspace workspace_;
  std::vector<float> sketch_;
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
