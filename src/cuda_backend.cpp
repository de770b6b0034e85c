#include "src/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "kernels/flash.h"
#include "kernels/sketch_cuda.h"
#include "src/communicator.h"
#include "src/cuda_flash.h"
#include "src/cuda_half_reduce.h"
#include "src/cuda_half_sketch.h"
#include "src/cuda_handles.h"
#include "src/cuda_reduced_solver.h"
#include "src/cuda_strip.h"
#include "src/error.h"
#include "src/half_reduce.h"
#include "src/launch.h"
#include "src/nccl_reduce.h"

namespace tallsketch {

namespace {

constexpr int kBuffers = 2;                                 // one is filled while the other is uploaded
constexpr std::int64_t kEntryRows = std::int64_t{1} << 20;  // rows whose entries of S exist at a time, for scatter
// For what libraries allocate by themselves: cuSOLVER's handle and NCCL's buffers took 350 MiB on an H200.
constexpr std::int64_t kReserve = std::int64_t{512} << 20;

std::string uuid_text(const cudaDeviceProp& properties) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

/// One chunk on its way: pinned rows, the same rows raw on the device, and when each step was done.
struct Lane {
  ChunkBuffer chunk;
  PinnedBuffer pinned_a, pinned_b;
  DeviceBuffer<std::byte> raw_a;
  DeviceBuffer<double> raw_b;
  DeviceBuffer<std::byte> a;  // padded, of the device's type, unless the slab is resident; b likewise
  DeviceBuffer<float> b;
  CudaEvent start, uploaded, sketched;
  bool busy = false;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer, int device)
      : comm_(comm), timer_(timer), memory_limit_(options.memory_bytes), kernel_(options.kernel), device_(device) {
    check(cudaGetDeviceProperties(&properties_, device));
    stream_ = std::make_unique<CudaStream>();
  }

  const char* name() const override { return "cuda"; }
  std::string device() const override { return fmt::format("{} #{}", properties_.name, device_); }
  std::string device_uuid() const override { return uuid_text(properties_); }
  PlanLimits plan_limits(const SketchSpec& spec, const ProblemShape& shape) const override;
  /// Collective: starts NCCL.
  void connect(double timeout) { nccl_ = std::make_unique<NcclReduce>(comm_, timeout); }
  /// The device's free memory is divided by this.
  void set_ranks_on_device(int ranks) { ranks_on_device_ = ranks; }

  void begin(const SketchJob& job) override;
  ChunkBuffer& next_buffer() override;
  void upload(const ChunkBuffer& chunk) override;
  void exchange() override;
  void sketch() override;
  void reduce() override;
  RoundingLosses losses() override { return half_ ? half_->losses(*stream_) : RoundingLosses{}; }
  SketchRange sketch_range() override;
  TriangularFactor factor() override;
  std::vector<float> sketch_copy() override;
  SketchTiming time_sketch(const SketchCase& timed, int repeats) override { return time_cuda_sketch(timed, repeats); }
  PassTiming time_pass(const TimedShape& shape, int repeats) override { return time_cuda_pass(shape, repeats); }

 private:
  bool may_use_strip() const { return kernel_ == KernelChoice::kAuto || kernel_ == KernelChoice::kStrip; }
  bool resident() const { return job_.plan.residency == Residency::kDevice; }
  SketchView<float> sketch_of_a() const { return {sketch_.data(), job_.spec.d, job_.shape.n, cols()}; }
  SketchView<float> sketch_of_b() const { return {sketch_.data() + job_.shape.n, job_.spec.d, job_.shape.r, cols()}; }
  SketchView<float> whole_sketch() const { return {sketch_.data(), job_.spec.d, cols(), cols()}; }
  std::int64_t cols() const { return job_.shape.n + job_.shape.r; }

  bool uses_strip(const SketchSpec& spec, std::int64_t n) const {
    return kernel_ != KernelChoice::kScatter && StripSketcher::serves(spec, n);
  }
  ElementType device_type(const SketchSpec& spec, const ProblemShape& shape) const;
  DeviceBuffer<std::byte> make_rows(std::int64_t rows) const;
  void finish(Lane& lane);
  void place(const Lane& lane, std::int64_t rows, std::byte* a);
  void add_rows(const SlabView& a, const SlabView& b);

  const Communicator& comm_;
  PhaseTimer& timer_;
  std::uint64_t memory_limit_;
  KernelChoice kernel_;
  int device_;
  int ranks_on_device_ = 1;
  cudaDeviceProp properties_{};
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<NcclReduce> nccl_;
  SketchJob job_;
  ElementType type_ = ElementType::kFloat32;  // of A on the device
  std::int64_t pitch_ = 0;                    // of A on the device; even, so that pairs are aligned
  DeviceBuffer<std::byte> slab_a_;
  DeviceBuffer<float> slab_b_, sketch_;
  DeviceBuffer<std::uint32_t> entries_;  // scatter
  std::optional<StripSketcher> strip_;   // the strip engine, where it serves the sketch
  std::optional<HalfSketcher> half_;     // the sketch of A in 16 bits, where that was asked for
  std::array<Lane, kBuffers> lanes_;
  int next_ = 0;
};

/// The strip engine takes A in half precision as it is stored; everything else on the device is FP32.
ElementType CudaBackend::device_type(const SketchSpec& spec, const ProblemShape& shape) const {
  return element_size(shape.a_type) == 2 && uses_strip(spec, shape.n) ? shape.a_type : ElementType::kFloat32;
}

PlanLimits CudaBackend::plan_limits(const SketchSpec& spec, const ProblemShape& shape) const {
  PlanLimits limits;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  limits.memory_bytes = memory_limit_ > 0
                            ? static_cast<std::int64_t>(memory_limit_)
                            : std::max<std::int64_t>(1, static_cast<std::int64_t>(free) / ranks_on_device_ - kReserve);
  limits.chunk_buffers = kBuffers;
  const ElementType type = device_type(spec, shape);
  const std::int64_t pitch = cuda::device_pitch(shape.n, type);
  limits.device_row_bytes = pitch * element_size(type) + shape.r * 4;
  const bool strip = uses_strip(spec, shape.n);
  limits.scratch_bytes = [=](std::int64_t rows) -> std::int64_t {
    if (strip) return StripSketcher::bytes(spec, shape.n, shape.r, rows, type);
    const std::int64_t half_sketch = is_half(spec.precision) ? HalfSketcher::bytes(spec, shape.n) : 0;
    return kEntryRows * spec.zeta * 4 + half_sketch;
  };
  return limits;
}

/// Room for rows of A in the device's type and pitch. Zeros, because halves are copied without their padding, which the
/// engine wants finite.
DeviceBuffer<std::byte> CudaBackend::make_rows(std::int64_t rows) const {
  DeviceBuffer<std::byte> room(rows * pitch_ * element_size(type_));
  if (type_ != ElementType::kFloat32) check(cudaMemsetAsync(room.data(), 0, room.bytes(), stream_->get()));
  return room;
}

void CudaBackend::begin(const SketchJob& job) {
  job_ = job;
  const ProblemShape& shape = job.shape;
  const bool scales = HalfSketcher::scales(job.spec, job.scaling);
  require(!scales || resident() || job.rows.empty(), ErrorKind::kUsage,
          "--precision fp16 needs A in device memory, because its column scales come first; A does not fit, so use "
          "--precision fp32 (as fast when A is streamed), more GPUs, or --scaling none");
  type_ = device_type(job.spec, shape);
  pitch_ = cuda::device_pitch(shape.n, type_);
  const cudaStream_t stream = stream_->get();
  if (resident()) {
    slab_a_ = make_rows(job.rows.size());
    slab_b_ = DeviceBuffer<float>(job.rows.size() * shape.r);
  }
  sketch_ = DeviceBuffer<float>(job.spec.d * cols());
  check(cudaMemsetAsync(sketch_.data(), 0, sketch_.bytes(), stream));
  const bool strip = uses_strip(job.spec, shape.n);
  require(strip || kernel_ != KernelChoice::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  if (kernel_ == KernelChoice::kFlash) require_flash(job.spec);
  strip_.reset();
  const std::int64_t most_rows = std::max<std::int64_t>(1, std::min(job.rows.size(), job.plan.chunk_rows));
  if (strip) {
    strip_.emplace(job.spec, shape.n, shape.r, most_rows, type_);
  } else {
    const std::int64_t rows = std::min(kEntryRows, scales ? std::max<std::int64_t>(1, job.rows.size()) : most_rows);
    entries_ = DeviceBuffer<std::uint32_t>(rows * job.spec.zeta);
  }
  half_.reset();
  if (is_half(job.spec.precision)) half_.emplace(job.spec, shape.n, job.scaling, *stream_);
  const std::int64_t rows = job.plan.chunk_rows;
  for (Lane& lane : lanes_) {
    lane.pinned_a = PinnedBuffer(rows * shape.n * element_size(shape.a_type));
    lane.pinned_b = PinnedBuffer(rows * shape.r * 8);
    lane.raw_a = DeviceBuffer<std::byte>(rows * shape.n * element_size(shape.a_type));
    lane.raw_b = DeviceBuffer<double>(rows * shape.r);
    if (!resident()) {
      lane.a = make_rows(rows);
      lane.b = DeviceBuffer<float>(rows * shape.r);
    }
    lane.chunk = {lane.pinned_a.data(), static_cast<double*>(lane.pinned_b.data()), {}};
    lane.busy = false;
  }
}

ChunkBuffer& CudaBackend::next_buffer() {
  Lane& lane = lanes_[static_cast<std::size_t>(next_)];
  next_ = (next_ + 1) % kBuffers;
  finish(lane);
  return lane.chunk;
}

/// Waits until the lane's rows are uploaded and sketched, and books the time of both.
void CudaBackend::finish(Lane& lane) {
  if (!lane.busy) return;
  lane.sketched.synchronize();
  timer_.add(Phase::kUpload, lane.uploaded.seconds_since(lane.start));
  timer_.add(Phase::kSketch, lane.sketched.seconds_since(lane.uploaded));
  lane.busy = false;
}

/// Brings the lane's raw rows into the device's type and pitch.
void CudaBackend::place(const Lane& lane, std::int64_t rows, std::byte* a) {
  const ProblemShape& shape = job_.shape;
  if (type_ == ElementType::kFloat32) {
    check(cuda::convert_to_float({lane.raw_a.data(), rows, shape.n, shape.n, shape.a_type, lane.chunk.rows.begin},
                                 reinterpret_cast<float*>(a), pitch_, stream_->get()));
    return;
  }
  const auto size = static_cast<std::size_t>(element_size(type_));
  const std::size_t row_bytes = static_cast<std::size_t>(shape.n) * size;
  check(cudaMemcpy2DAsync(a, static_cast<std::size_t>(pitch_) * size, lane.raw_a.data(), row_bytes, row_bytes,
                          static_cast<std::size_t>(rows), cudaMemcpyDeviceToDevice, stream_->get()));
}

void CudaBackend::upload(const ChunkBuffer& chunk) {
  Lane& lane = *std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& l) { return &l.chunk == &chunk; });
  const ProblemShape& shape = job_.shape;
  const cudaStream_t stream = stream_->get();
  const std::int64_t rows = chunk.rows.size();
  const std::int64_t local = chunk.rows.begin - job_.rows.begin;
  std::byte* const a = resident() ? slab_a_.data() + local * pitch_ * element_size(type_) : lane.a.data();
  float* const b = resident() ? slab_b_.data() + local * shape.r : lane.b.data();

  lane.start.record(*stream_);
  const auto a_bytes = static_cast<std::size_t>(rows * shape.n * element_size(shape.a_type));
  check(cudaMemcpyAsync(lane.raw_a.data(), chunk.a, a_bytes, cudaMemcpyHostToDevice, stream));
  check(cudaMemcpyAsync(lane.raw_b.data(), chunk.b, static_cast<std::size_t>(rows * shape.r) * 8,
                        cudaMemcpyHostToDevice, stream));
  lane.uploaded.record(*stream_);
  place(lane, rows, a);
  check(cuda::convert_to_float({lane.raw_b.data(), rows, shape.r, shape.r, ElementType::kFloat64, chunk.rows.begin}, b,
                               shape.r, stream));
  const SlabView a_rows{a, rows, shape.n, pitch_, type_, chunk.rows.begin};
  const SlabView b_rows{b, rows, shape.r, shape.r, ElementType::kFloat32, chunk.rows.begin};
  if (half_ && half_->scales()) {
    half_->measure(a_rows, *stream_);
  } else {
    add_rows(a_rows, b_rows);
  }
  lane.sketched.record(*stream_);
  lane.busy = true;
}

/// Adds S [a | b] of rows that lie on the device.
void CudaBackend::add_rows(const SlabView& a, const SlabView& b) {
  if (strip_) {
    strip_->add(a, b, sketch_of_a(), sketch_of_b(), *stream_);
    return;
  }
  const cudaStream_t stream = stream_->get();
  for (std::int64_t done = 0; done < a.rows; done += kEntryRows) {
    const std::int64_t rows = std::min(kEntryRows, a.rows - done);
    const SlabView a_part = rows_of(a, done, rows), b_part = rows_of(b, done, rows);
    check(cuda::fill_entries(job_.spec, a.first_row + done, rows, entries_.data(), stream));
    if (half_) {
      half_->add(a_part, entries_.data(), *stream_);
    } else if (kernel_ == KernelChoice::kFlash) {
      check(cuda::flash_fp32(job_.spec, a_part, entries_.data(), sketch_of_a(), stream));
    } else {
      check(cuda::scatter_fp32(job_.spec, a_part, entries_.data(), sketch_of_a(), stream));
    }
    check(cuda::scatter_fp32_narrow(job_.spec, b_part, entries_.data(), sketch_of_b(), stream));
  }
}

void CudaBackend::exchange() {
  if (half_ && half_->scales()) half_->choose_factors(comm_, *stream_);
}

void CudaBackend::sketch() {
  for (Lane& lane : lanes_) finish(lane);
  if (half_) {
    lanes_[0].uploaded.record(*stream_);
    const ProblemShape& shape = job_.shape;
    if (half_->scales()) {
      add_rows({slab_a_.data(), job_.rows.size(), shape.n, pitch_, type_, job_.rows.begin},
               {slab_b_.data(), job_.rows.size(), shape.r, shape.r, ElementType::kFloat32, job_.rows.begin});
    }
    half_->finish(sketch_of_a(), *stream_);
    lanes_[0].sketched.record(*stream_);
    stream_->synchronize();
    timer_.add(Phase::kSketch, lanes_[0].sketched.seconds_since(lanes_[0].uploaded));
  }
  stream_->synchronize();
}

void CudaBackend::reduce() {
  timer_.time(Phase::kReduce, [&] {
    const bool halves = job_.reduce == ReducePrecision::kFp16;
    if (nccl_ && halves) {
      sum_in_halves_on_device(*nccl_, comm_, whole_sketch(), job_.shape.n, *stream_);
      return;
    }
    if (nccl_) {
      nccl_->sum(sketch_.data(), sketch_.count(), stream_->get());
      return;
    }
    if (comm_.size() == 1) return;
    std::vector<float> host;
    comm_.together([&] { host = sketch_copy(); });
    if (halves) {
      sum_in_halves(comm_, host, job_.spec.d, job_.shape.n, job_.shape.r);
    } else {
      comm_.sum(host.data(), static_cast<std::int64_t>(host.size()));
    }
    comm_.together([&] {
      check(cudaMemcpyAsync(sketch_.data(), host.data(), sketch_.bytes(), cudaMemcpyHostToDevice, stream_->get()));
      stream_->synchronize();
    });
  });
}

SketchRange CudaBackend::sketch_range() {
  DeviceBuffer<unsigned long long> count(1);
  unsigned long long found = 0;
  check(cudaMemsetAsync(count.data(), 0, count.bytes(), stream_->get()));
  check(cuda::count_non_finite(whole_sketch(), count.data(), stream_->get()));
  check(cudaMemcpyAsync(&found, count.data(), sizeof found, cudaMemcpyDeviceToHost, stream_->get()));
  const std::vector<float> largest = column_maxima_on_device(whole_sketch(), *stream_);  // waits for the copy too
  return {found == 0, std::any_of(largest.begin(), largest.end(), [](float value) { return value < kTinyColumn; })};
}

TriangularFactor CudaBackend::factor() {
  return qr_of_sketch_on_device(whole_sketch(), job_.shape.n, job_.shape.r, 1 / std::sqrt(double(job_.spec.zeta)),
                                *stream_);
}

std::vector<float> CudaBackend::sketch_copy() {
  std::vector<float> host(static_cast<std::size_t>(sketch_.count()));
  check(cudaMemcpyAsync(host.data(), sketch_.data(), sketch_.bytes(), cudaMemcpyDeviceToHost, stream_->get()));
  stream_->synchronize();
  return host;
}

}  // namespace

std::int64_t visible_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;  // count is untouched without a driver
  }
  return count;
}

std::unique_ptr<Backend> make_cuda_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer) {
  const bool use_nccl = options.comm == ReduceChoice::kNccl;
  std::unique_ptr<CudaBackend> backend;
  comm.together([&] {
    const int device = pick_device(comm.node_rank(), static_cast<int>(visible_devices()), !use_nccl);
    check(cudaSetDevice(device));
    backend = std::make_unique<CudaBackend>(options, comm, timer, device);
  });
  const auto uuids = comm.all_gather(backend->device_uuid());
  const auto hosts = comm.all_gather(comm.host());
  std::vector<RankDevice> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    ranks.push_back({hosts[static_cast<std::size_t>(rank)], rank, uuids[static_cast<std::size_t>(rank)]});
  }
  const auto shared = shared_devices(ranks);
  comm.together([&] {
    require(shared.empty() || !use_nccl, ErrorKind::kCommunication,
            fmt::format("{}: NCCL needs a GPU of its own for every rank; start one rank a GPU, or use --comm mpi",
                        fmt::join(shared, "; ")));
  });
  backend->set_ranks_on_device(static_cast<int>(std::count(uuids.begin(), uuids.end(), backend->device_uuid())));
  constexpr double kBeforeWatchdog = 0.8;  // so that NCCL's own words come before the watchdog's
  if (use_nccl && comm.size() > 1) backend->connect(kBeforeWatchdog * options.timeout);
  return backend;
}

}  // namespace tallsketch
