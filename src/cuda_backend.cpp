#include "src/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/cuda_copy_timing.h"
#include "src/cuda_device.h"
#include "src/cuda_direct_qr.h"
#include "src/cuda_gram.h"
#include "src/cuda_handles.h"
#include "src/cuda_made_up.h"
#include "src/cuda_reduce_timing.h"
#include "src/cuda_reduced_solver.h"
#include "src/cuda_refine_sums.h"
#include "src/cuda_row_sketcher.h"
#include "src/cuda_rows.h"
#include "src/cuda_sketch_sum.h"
#include "src/cuda_solve_costs.h"
#include "src/cuda_timing.h"
#include "src/device_row_limits.h"
#include "src/error.h"
#include "src/host_memory.h"
#include "src/host_threads.h"
#include "src/launch.h"
#include "src/nccl_reduce.h"

namespace tallsketch {

namespace {

// For what libraries allocate by themselves: cuSOLVER's handle and NCCL's buffers took 350 MiB on an H200.
constexpr std::int64_t kReserve = std::int64_t{512} << 20;

class CudaBackend final : public Backend {
 public:
  CudaBackend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer, int device)
      : comm_(comm),
        timer_(timer),
        memory_limit_(options.memory_bytes),
        residency_(options.residency),
        kernel_(options.kernel),
        device_(device) {
    check(cudaGetDeviceProperties(&properties_, device));
    place_ = {comm.host(), properties_.name, device, uuid_text(properties_), driver_version_text(), links_text(device)};
  }

  const char* name() const override { return "cuda"; }
  RankPlace place() const override { return place_; }
  std::vector<Library> libraries() const override {
    return {{"CUDA", cuda_runtime_text()}, {"NCCL", nccl_version_text()}};
  }
  PlanLimits plan_limits(const SketchJob& job) override;
  SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const override {
    return cuda_solve_costs(shape, rows, place);
  }
  /// Collective: starts NCCL.
  void connect() { nccl_ = std::make_unique<NcclReduce>(comm_); }
  /// The device's free memory is divided by this.
  void set_ranks_on_device(int ranks) { ranks_on_device_ = ranks; }

  void begin(const SketchJob& job) override;
  ChunkBuffer& next_buffer(RowRange rows) override { return rows_.next_buffer(rows, timer_); }
  int lanes() const override { return kDeviceLanes; }
  void upload(const ChunkBuffer& chunk) override;
  void take_kept() override;
  void exchange() override;
  void sketch() override;
  void add_partial(const std::vector<double>& sketch) override;
  void restart_sketch() override;
  void reduce() override;
  RoundingLosses losses() override { return sketcher_ ? sketcher_->losses() : RoundingLosses{}; }
  SketchRange sketch_range() override;
  std::optional<TriangularFactor> factor(const FactorChoice& choice) override;
  std::vector<double> sketch_residual(const std::vector<double>& x) override;
  std::vector<double> sketch_copy() override;
  bool keeps_rows() const override { return rows_.are_kept() || rows_.are_on_host(); }
  void make_up(const MadeUpProblem& problem, std::vector<double>& b_squares) override;
  double read_floor(int repeats) override;
  std::vector<double> solve_by_qr(double& seconds) override;
  void normal_begin(const std::vector<double>& x, bool with_b) override;
  void normal_add(const ChunkBuffer& chunk) override;
  void normal_add_kept() override;
  NormalSums normal_end() override;
  SketchTiming time_sketch(const SketchCase& timed, int repeats) override { return time_cuda_sketch(timed, repeats); }
  PassTiming time_pass(const TimedShape& shape, int repeats) override { return time_cuda_pass(shape, repeats); }
  ReduceTiming time_reduce(const ReduceCase& timed, int repeats) override {
    return time_cuda_reduce(timed, repeats, nccl_.get(), comm_);
  }
  std::optional<double> copy_seconds(std::int64_t bytes) override { return time_pinned_copy(bytes); }

 private:
  bool is_gram() const { return job_.compression == Compression::kGram; }
  std::int64_t cols() const { return job_.shape.n + job_.shape.r; }
  /// Of the sketch, or of the Gram matrix.
  std::int64_t sketch_rows() const { return is_gram() ? cols() : job_.spec.d; }
  double scale() const { return 1 / std::sqrt(double(job_.spec.zeta)); }

  template <class T>
  SketchView<T> view_of(const DeviceBuffer<T>& sketch) const {
    return {sketch.data(), sketch_rows(), cols(), cols()};
  }
  /// Calls f with the view of the whole sketch, of either type.
  template <class F>
  auto visit_sketch(F&& f) const {
    return std::visit([&](const auto& sketch) { return f(view_of(sketch)); }, sketch_);
  }

  void release(bool but_for_rows);
  void make_sketch();
  void warm_up();
  CudaReducedSolver& solver();
  void take(const RowsOnDevice& rows);

  const Communicator& comm_;
  PhaseTimer& timer_;
  std::uint64_t memory_limit_;
  ResidencyChoice residency_;
  KernelChoice kernel_;
  int device_;
  int ranks_on_device_ = 1;
  cudaDeviceProp properties_{};
  RankPlace place_;  // asked for once: after an error of CUDA nothing more can be asked
  CudaStream stream_;
  std::unique_ptr<NcclReduce> nccl_;
  std::optional<CudaReducedSolver> solver_;  // from the first plan on
  SketchStatistics statistics_;
  SketchJob job_;
  DeviceRows rows_{stream_};
  // (d, n + r), as the precision asks; or the upper triangle of the Gram matrix, (n + r, n + r) column-major
  std::variant<DeviceBuffer<float>, DeviceBuffer<double>> sketch_;
  std::optional<RowSketcher> sketcher_;   // of a job with a sketch
  std::optional<DeviceGram> gram_;        // of a job with a Gram matrix
  std::array<std::int64_t, 3> warmed_{};  // rows, columns and bytes of an element that the solver is warm for
  std::optional<RefineSums> normal_;      // from the first refinement pass on
};

CudaReducedSolver& CudaBackend::solver() {
  if (!solver_) solver_.emplace(stream_);
  return *solver_;
}

PlanLimits CudaBackend::plan_limits(const SketchJob& job) {
  release(job.kept);  // what an earlier job held is free for this one
  const std::int64_t held = solver().held_bytes() + rows_.kept_bytes();
  const ProblemShape& shape = job.shape;
  const bool gram = job.compression == Compression::kGram;
  PlanLimits limits = device_row_limits(job, residency_);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  const std::int64_t available = static_cast<std::int64_t>(free) / ranks_on_device_ + held - kReserve;
  limits.memory_bytes =
      memory_limit_ > 0 ? static_cast<std::int64_t>(memory_limit_) : std::max<std::int64_t>(1, available);
  limits.memory_bound = memory_limit_ > 0 ? MemoryBound::kAsked : MemoryBound::kFree;
  const MemoryShare host = host_memory_share(comm_.node_size(), host_threads(comm_));
  limits.host_memory_bytes =
      host.bytes == 0 ? 0
                      : static_cast<std::int64_t>(kHostShare * static_cast<double>(host.bytes)) + rows_.pinned_bytes();
  limits.host_memory_bound = host.bound;
  const std::int64_t kept_rows = job.kept && rows_.are_kept() ? job_.rows.size() : 0;  // taken at once
  limits.scratch_bytes = [=, spec = job.spec, kernel = kernel_](std::int64_t rows) {
    return gram ? DeviceGram::bytes(shape.n, shape.r, shape.a_type)
                : RowSketcher::bytes(spec, shape, std::max(rows, kept_rows), kernel);
  };
  return limits;
}

/// Gives the memory of the last job back, before that of the next is asked for; the solver's serves the next one too.
void CudaBackend::release(bool but_for_rows) {
  stream_.synchronize();
  rows_.release(but_for_rows);
  sketcher_.reset();
  gram_.reset();
  sketch_ = {};
  normal_.reset();
}

void CudaBackend::make_sketch() {
  const std::int64_t elements = sketch_rows() * cols();
  if (job_.accumulates() == SketchPrecision::kFp64) {
    sketch_ = DeviceBuffer<double>(elements);
  } else {
    sketch_ = DeviceBuffer<float>(elements);
  }
}

void CudaBackend::begin(const SketchJob& job) {
  release(job.kept);
  job_ = job;
  const bool resident = job.plan.residency == Residency::kDevice;
  require(is_gram() || resident || job.rows.empty() || !scales_by_data(job.spec, job.scaling), ErrorKind::kUsage,
          "--precision fp16 needs A in device memory, because its column scales come first; A does not fit, so use "
          "--precision fp32 (as fast when A is streamed), more GPUs, or --scaling none");
  rows_.begin(job);
  make_sketch();
  restart_sketch();
  if (comm_.is_root()) warm_up();
}

void CudaBackend::restart_sketch() {
  std::visit([&](const auto& sketch) { check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream_.get())); },
             sketch_);
  if (is_gram()) {
    gram_.emplace(job_.shape.n, job_.shape.r, job_.shape.a_type, solver().blas(), stream_);
    return;
  }
  const AnySketch sketch = std::visit([&](const auto& s) { return AnySketch(view_of(s)); }, sketch_);
  const bool whole = job_.kept && job_.plan.residency == Residency::kDevice;
  const std::int64_t at_once = whole ? job_.rows.size() : std::min(job_.rows.size(), job_.plan.chunk_rows);
  sketcher_.reset();  // its memory is the next one's
  sketcher_.emplace(job_, at_once, kernel_, sketch, stream_);
}

/// Lets the libraries load their code and take their memory before anybody waits for the triangle: by the Cholesky
/// factorisation, which is the usual one, of nothing but zeros.
void CudaBackend::warm_up() {
  const auto warm_for = [&]<class T>(const SketchView<T>& sketch) {
    const std::array<std::int64_t, 3> sizes = {sketch.rows, sketch.cols, sizeof(T)};
    if (sizes == warmed_) return;
    warmed_ = sizes;
    if constexpr (sizeof(T) == sizeof(float)) {
      solver().cholesky_of_sketch(sketch, job_.shape.n, job_.shape.r, {}, {});
    } else if (is_gram()) {
      solver().cholesky_of_gram(sketch.data, job_.shape.n, job_.shape.r, {});
    }
    solver().warm_up_triangle();
  };
  visit_sketch(warm_for);
}

/// Adds rows that lie on the device, or looks at them first.
void CudaBackend::take(const RowsOnDevice& rows) {
  if (gram_) {
    gram_->add(rows.a, rows.b);
  } else if (sketcher_->scales()) {
    sketcher_->measure(rows.a);
  } else {
    sketcher_->add(rows);
  }
}

void CudaBackend::upload(const ChunkBuffer& chunk) {
  const RowsOnDevice rows = rows_.upload(chunk, Phase::kSketch);
  if (!chunk.known) take(rows);
  rows_.mark_done(chunk);
}

void CudaBackend::take_kept() {
  if (rows_.are_on_host()) {
    rows_.stream_kept(timer_, Phase::kSketch, [&](const RowsOnDevice& rows) { take(rows); });
    return;
  }
  timer_.time(Phase::kSketch, [&] {
    take(rows_.kept());
    stream_.synchronize();
  });
}

void CudaBackend::exchange() {
  if (sketcher_ && sketcher_->scales()) sketcher_->choose_factors(comm_);
}

void CudaBackend::sketch() {
  rows_.finish(timer_);
  timer_.time(Phase::kSketch, [&] {
    if (gram_) {
      gram_->copy_to(std::get<DeviceBuffer<double>>(sketch_).data());
    } else {
      if (sketcher_->scales()) sketcher_->add(rows_.kept());
      sketcher_->finish();
    }
    stream_.synchronize();
  });
}

void CudaBackend::add_partial(const std::vector<double>& sketch) {
  const auto add = [&]<class T>(const DeviceBuffer<T>& own) {
    require(static_cast<std::int64_t>(sketch.size()) == own.count(), ErrorKind::kInternal,
            fmt::format("{} elements added to a sketch of {}", sketch.size(), own.count()));
    std::vector<T> sum = copied_to_host(own, stream_);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<T>(sketch[i]);
    check(cudaMemcpyAsync(own.data(), sum.data(), own.bytes(), cudaMemcpyHostToDevice, stream_.get()));
    stream_.synchronize();
  };
  std::visit(add, sketch_);
}

void CudaBackend::reduce() {
  timer_.time(Phase::kReduce, [&] {
    visit_sketch([&]<class T>(const SketchView<T>& sketch) {
      if constexpr (sizeof(T) == sizeof(float)) {
        sum_over_ranks(sketch, job_.shape.n, job_.reduce, nccl_.get(), comm_, stream_);
      } else {
        sum_over_ranks(sketch, nccl_.get(), comm_, stream_);
      }
    });
  });
}

SketchRange CudaBackend::sketch_range() {
  SketchLook look = visit_sketch([&](const auto& sketch) { return statistics_.look(sketch, stream_); });
  if (is_gram()) look.largest = solver().column_norms(std::get<DeviceBuffer<double>>(sketch_).data(), cols());
  return judge_range(look.largest, look.finite, job_.accumulates());
}

std::optional<TriangularFactor> CudaBackend::factor(const FactorChoice& choice) {
  const std::int64_t n = job_.shape.n, r = job_.shape.r;
  if (is_gram()) {
    return solver().cholesky_of_gram(std::get<DeviceBuffer<double>>(sketch_).data(), n, r,
                                     {kUnitRoundoffOf<double>, 1, choice.ridge, choice.exponents});
  }
  return visit_sketch([&]<class T>(const SketchView<T>& sketch) -> std::optional<TriangularFactor> {
    if (choice.method == FactorMethod::kCholesky) {
      return solver().cholesky_of_sketch(sketch, n, r, choice.unused,
                                         {kUnitRoundoffOf<T>, scale(), choice.ridge, choice.exponents});
    }
    TriangularFactor factor = solver().qr_of_sketch(sketch, n, r, scale(), choice.unused);
    add_ridge(choice.ridge, choice.exponents, factor);
    return factor;
  });
}

std::vector<double> CudaBackend::sketch_residual(const std::vector<double>& x) {
  const DeviceBuffer<double> device_x(static_cast<std::int64_t>(x.size())), residual(job_.spec.d * job_.shape.r);
  check(cudaMemcpyAsync(device_x.data(), x.data(), device_x.bytes(), cudaMemcpyHostToDevice, stream_.get()));
  visit_sketch([&](const auto& sketch) {
    check(cuda::sketch_residual(sketch, job_.shape.n, device_x.data(), scale(), residual.data(), stream_.get()));
  });
  return copied_to_host(residual, stream_);
}

void CudaBackend::make_up(const MadeUpProblem& problem, std::vector<double>& b_squares) {
  require(rows_.are_kept(), ErrorKind::kUsage,
          "rows are made up where they are kept, and A does not fit into device memory");
  make_up_rows(problem, job_.shape, rows_.kept(), solver().blas(), stream_, b_squares);
}

double CudaBackend::read_floor(int repeats) {
  require(rows_.are_kept(), ErrorKind::kUsage,
          "only kept rows can be read again, and A does not fit into device memory");
  return read_floor_of(rows_.kept().a, repeats, stream_);
}

std::vector<double> CudaBackend::solve_by_qr(double& seconds) {
  require(rows_.are_kept(), ErrorKind::kMemory,
          "the QR of all rows starts from kept ones, and A does not fit into device memory");
  return direct_qr_on_device(rows_.kept().a, rows_.kept().b, solver().blas(), stream_, seconds);
}

void CudaBackend::normal_begin(const std::vector<double>& x, bool with_b) {
  if (!normal_) normal_.emplace(job_.shape, stream_);
  normal_->begin(x, with_b);
}

void CudaBackend::normal_add(const ChunkBuffer& chunk) {
  normal_->add(rows_.upload(chunk, Phase::kRefine));
  rows_.mark_done(chunk);
}

void CudaBackend::normal_add_kept() {
  if (rows_.are_on_host()) {
    rows_.stream_kept(timer_, Phase::kRefine, [&](const RowsOnDevice& rows) { normal_->add(rows); });
  } else {
    normal_->add(rows_.kept());
  }
}

NormalSums CudaBackend::normal_end() {
  rows_.finish(timer_);
  return normal_->end();
}

std::vector<double> CudaBackend::sketch_copy() {
  return std::visit(
      [&](const auto& sketch) {
        const auto host = copied_to_host(sketch, stream_);
        return std::vector<double>(host.begin(), host.end());
      },
      sketch_);
}

/// Collective: what every rank sees.
std::vector<RankView> all_views(const Communicator& comm, int visible) {
  const auto hosts = comm.all_gather(comm.host());
  const auto node_ranks = comm.all_gather(comm.node_rank()), devices = comm.all_gather(visible);
  std::vector<RankView> views;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    views.push_back({hosts[rank], node_ranks[rank], devices[rank]});
  return views;
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer) {
  const bool use_nccl = options.comm == ReduceChoice::kNccl;
  const auto visible = static_cast<int>(visible_devices());
  const std::vector<RankView> views = all_views(comm, visible);
  comm.together([&] { check_devices(views); });
  std::unique_ptr<CudaBackend> backend;
  comm.together([&] {
    const int device = pick_device(comm.node_rank(), visible);
    check(cudaSetDevice(device));
    backend = std::make_unique<CudaBackend>(options, comm, timer, device);
  });
  const auto uuids = comm.all_gather(backend->place().uuid);
  std::vector<RankPlace> places(uuids.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    places[rank].host = views[rank].host;
    places[rank].uuid = uuids[rank];
  }
  const auto shared = shared_devices(places);
  comm.together([&] {
    require(shared.empty() || !use_nccl, ErrorKind::kCommunication,
            fmt::format("{} ({}): NCCL needs a GPU of its own for every rank; start one rank a GPU, or share them with "
                        "--comm mpi",
                        fmt::join(shared, "; "), device_map(views)));
  });
  backend->set_ranks_on_device(static_cast<int>(std::count(uuids.begin(), uuids.end(), backend->place().uuid)));
  if (use_nccl && comm.size() > 1) backend->connect();
  return backend;
}

}  // namespace tallsketch
