#include "src/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "kernels/sketch_cuda.h"
#include "src/communicator.h"
#include "src/cuda_handles.h"
#include "src/cuda_reduced_solver.h"
#include "src/cuda_strip.h"
#include "src/error.h"
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
  DeviceBuffer<float> a, b;  // FP32, unless the slab is resident or the sketch FP64
  CudaEvent start, uploaded, sketched;
  bool busy = false;
};

template <class T>
std::vector<T> copy_of(const DeviceBuffer<T>& device, const CudaStream& stream) {
  std::vector<T> host(static_cast<std::size_t>(device.count()));
  check(cudaMemcpyAsync(host.data(), device.data(), device.bytes(), cudaMemcpyDeviceToHost, stream.get()));
  stream.synchronize();
  return host;
}

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
  SketchRange sketch_range() override;
  TriangularFactor factor() override;
  std::vector<double> sketch_copy() override;
  SketchTiming time_sketch(const SketchSpec& spec, const TimedShape& shape, int repeats, KernelChoice kernel) override {
    return time_cuda_sketch(spec, shape, repeats, kernel);
  }

 private:
  bool fp16() const { return job_.spec.precision == SketchPrecision::kFp16; }
  bool resident() const { return job_.plan.residency == Residency::kDevice; }
  bool fp64() const { return job_.spec.precision == SketchPrecision::kFp64; }
  /// Columns [first, first + count) of the sketch; T is the type that the precision asks for.
  template <class T>
  SketchView<T> sketch_columns(std::int64_t first, std::int64_t count) const {
    return {std::get<DeviceBuffer<T>>(sketch_).data() + first, job_.spec.d, count, cols()};
  }
  template <class T = float>
  SketchView<T> sketch_of_a() const {
    return sketch_columns<T>(0, job_.shape.n);
  }
  template <class T = float>
  SketchView<T> sketch_of_b() const {
    return sketch_columns<T>(job_.shape.n, job_.shape.r);
  }
  /// Calls f with the view of the whole sketch, of either type.
  template <class F>
  auto visit_sketch(F&& f) const {
    return std::visit(
        [&]<class T>(const DeviceBuffer<T>& sketch) {
          return f(SketchView<T>{sketch.data(), job_.spec.d, cols(), cols()});
        },
        sketch_);
  }
  std::int64_t cols() const { return job_.shape.n + job_.shape.r; }

  void release();
  void clear_sketch();
  void finish(Lane& lane);
  void add_chunk(const SlabView& a, const SlabView& b, Lane& lane);
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
  std::int64_t pitch_ = 0;               // of A on the device, in floats; even, so that pairs are aligned
  DeviceBuffer<float> slab_a_, slab_b_;  // resident rows of an FP32 or FP16 sketch
  DeviceBuffer<std::byte> stored_a_;     // resident rows of an FP64 sketch: as stored, without padding
  DeviceBuffer<double> stored_b_;
  std::variant<DeviceBuffer<float>, DeviceBuffer<double>> sketch_;  // (d, n + r), as the precision asks
  DeviceBuffer<std::uint16_t> half_sketch_;
  DeviceBuffer<float> column_max_, column_factor_;
  DeviceBuffer<double> column_squares_, inverse_factor_;
  DeviceBuffer<std::uint32_t> entries_;              // scatter
  std::optional<StripSketcher> strip_;               // the strip engine, where it serves the sketch
  std::optional<std::array<Lane, kBuffers>> lanes_;  // from begin on
  int next_ = 0;
};

PlanLimits CudaBackend::plan_limits(const SketchSpec& spec, const ProblemShape& shape) const {
  PlanLimits limits;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  limits.memory_bytes = memory_limit_ > 0
                            ? static_cast<std::int64_t>(memory_limit_)
                            : std::max<std::int64_t>(1, static_cast<std::int64_t>(free) / ranks_on_device_ - kReserve);
  limits.chunk_buffers = kBuffers;
  const std::int64_t pitch = cuda::device_pitch(shape.n);
  limits.device_row_bytes = spec.precision == SketchPrecision::kFp64
                                ? shape.row_bytes()
                                : (pitch + shape.r) * element_size(ElementType::kFloat32);
  const bool strip = kernel_ != KernelChoice::kScatter && StripSketcher::serves(spec, shape.n);
  limits.scratch_bytes = [=](std::int64_t rows) -> std::int64_t {
    if (strip) return StripSketcher::bytes(spec, shape.n, shape.r, rows);
    const std::int64_t half_sketch = spec.precision == SketchPrecision::kFp16 ? spec.d * pitch * 2 : 0;
    return kEntryRows * spec.zeta * 4 + half_sketch;
  };
  return limits;
}

/// Gives all memory of the last job back, before that of the next is asked for.
void CudaBackend::release() {
  stream_->synchronize();
  slab_a_ = {};
  slab_b_ = {};
  stored_a_ = {};
  stored_b_ = {};
  sketch_ = {};
  half_sketch_ = {};
  entries_ = {};
  strip_.reset();
  lanes_.reset();
}

void CudaBackend::clear_sketch() {
  const std::int64_t elements = job_.spec.d * cols();
  if (fp64()) {
    sketch_ = DeviceBuffer<double>(elements);
  } else {
    sketch_ = DeviceBuffer<float>(elements);
  }
  std::visit([&](const auto& sketch) { check(cudaMemsetAsync(sketch.data(), 0, sketch.bytes(), stream_->get())); },
             sketch_);
}

void CudaBackend::begin(const SketchJob& job) {
  release();
  job_ = job;
  const ProblemShape& shape = job.shape;
  require(!fp16() || resident() || job.rows.empty(), ErrorKind::kUsage,
          "--precision fp16 needs A in device memory, because its column scales come first; A does not fit, so use "
          "--precision fp32 (as fast when A is streamed) or more GPUs");
  pitch_ = cuda::device_pitch(shape.n);
  const cudaStream_t stream = stream_->get();
  if (resident() && fp64()) {
    stored_a_ = DeviceBuffer<std::byte>(job.rows.size() * shape.a_row_bytes());
    stored_b_ = DeviceBuffer<double>(job.rows.size() * shape.r);
  } else if (resident()) {
    slab_a_ = DeviceBuffer<float>(job.rows.size() * pitch_);
    slab_b_ = DeviceBuffer<float>(job.rows.size() * shape.r);
  }
  clear_sketch();
  const bool served = StripSketcher::serves(job.spec, shape.n);
  require(served || kernel_ != KernelChoice::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  const std::int64_t most_rows = std::max<std::int64_t>(1, std::min(job.rows.size(), job.plan.chunk_rows));
  if (served && kernel_ != KernelChoice::kScatter) {
    strip_.emplace(job.spec, shape.n, shape.r, most_rows);
  } else {
    const std::int64_t rows = std::min(kEntryRows, fp16() ? std::max<std::int64_t>(1, job.rows.size()) : most_rows);
    entries_ = DeviceBuffer<std::uint32_t>(rows * job.spec.zeta);
  }
  if (fp16()) {
    half_sketch_ = DeviceBuffer<std::uint16_t>(job.spec.d * pitch_);
    column_max_ = DeviceBuffer<float>(shape.n);
    column_squares_ = DeviceBuffer<double>(shape.n);
    check(cudaMemsetAsync(half_sketch_.data(), 0, half_sketch_.bytes(), stream));
    check(cudaMemsetAsync(column_max_.data(), 0, column_max_.bytes(), stream));
    check(cudaMemsetAsync(column_squares_.data(), 0, column_squares_.bytes(), stream));
  }
  const std::int64_t rows = job.plan.chunk_rows;
  lanes_.emplace();
  for (Lane& lane : *lanes_) {
    lane.pinned_a = PinnedBuffer(rows * shape.n * element_size(shape.a_type));
    lane.pinned_b = PinnedBuffer(rows * shape.r * 8);
    if (!resident() || !fp64()) {
      lane.raw_a = DeviceBuffer<std::byte>(rows * shape.n * element_size(shape.a_type));
      lane.raw_b = DeviceBuffer<double>(rows * shape.r);
    }
    if (!resident() && !fp64()) {
      lane.a = DeviceBuffer<float>(rows * pitch_);
      lane.b = DeviceBuffer<float>(rows * shape.r);
    }
    lane.chunk = {lane.pinned_a.data(), static_cast<double*>(lane.pinned_b.data()), {}};
  }
}

ChunkBuffer& CudaBackend::next_buffer() {
  Lane& lane = (*lanes_)[static_cast<std::size_t>(next_)];
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

void CudaBackend::upload(const ChunkBuffer& chunk) {
  Lane& lane = *std::find_if(lanes_->begin(), lanes_->end(), [&](const Lane& l) { return &l.chunk == &chunk; });
  const ProblemShape& shape = job_.shape;
  const cudaStream_t stream = stream_->get();
  const std::int64_t rows = chunk.rows.size();
  const std::int64_t local = chunk.rows.begin - job_.rows.begin;
  // An FP64 sketch reads the rows as they are stored; resident ones go to their place at once.
  const bool kept = resident() && fp64();
  std::byte* const raw_a = kept ? stored_a_.data() + local * shape.a_row_bytes() : lane.raw_a.data();
  double* const raw_b = kept ? stored_b_.data() + local * shape.r : lane.raw_b.data();

  lane.start.record(*stream_);
  check(cudaMemcpyAsync(raw_a, chunk.a, static_cast<std::size_t>(rows * shape.a_row_bytes()), cudaMemcpyHostToDevice,
                        stream));
  check(cudaMemcpyAsync(raw_b, chunk.b, static_cast<std::size_t>(rows * shape.r) * 8, cudaMemcpyHostToDevice, stream));
  lane.uploaded.record(*stream_);
  const SlabView stored_a{raw_a, rows, shape.n, shape.n, shape.a_type, chunk.rows.begin};
  const SlabView stored_b{raw_b, rows, shape.r, shape.r, ElementType::kFloat64, chunk.rows.begin};
  if (fp64()) {
    add_rows(stored_a, stored_b);
  } else {
    add_chunk(stored_a, stored_b, lane);
  }
  lane.sketched.record(*stream_);
  lane.busy = true;
}

/// Converts a chunk to FP32 and adds it to the sketch; fp16: looks at the columns, and leaves the adding to sketch().
void CudaBackend::add_chunk(const SlabView& stored_a, const SlabView& stored_b, Lane& lane) {
  const cudaStream_t stream = stream_->get();
  const std::int64_t rows = stored_a.rows, first = stored_a.first_row, local = first - job_.rows.begin;
  const std::int64_t n = job_.shape.n, r = job_.shape.r;
  float* const a = resident() ? slab_a_.data() + local * pitch_ : lane.a.data();
  float* const b = resident() ? slab_b_.data() + local * r : lane.b.data();
  check(cuda::convert_to_float(stored_a, a, pitch_, stream));
  check(cuda::convert_to_float(stored_b, b, r, stream));
  const SlabView a_rows{a, rows, n, pitch_, ElementType::kFloat32, first};
  const SlabView b_rows{b, rows, r, r, ElementType::kFloat32, first};
  if (fp16()) {
    check(cuda::column_statistics(a_rows, column_max_.data(), column_squares_.data(), stream));
  } else {
    add_rows(a_rows, b_rows);
  }
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
    if (fp64()) {
      check(cuda::scatter_fp64(job_.spec, a_part, entries_.data(), sketch_of_a<double>(), stream));
      check(cuda::scatter_fp64(job_.spec, b_part, entries_.data(), sketch_of_b<double>(), stream));
      continue;
    }
    if (fp16()) {
      check(cuda::scatter_fp16(job_.spec, a_part, entries_.data(), column_factor_.data(),
                               {half_sketch_.data(), job_.spec.d, a.cols, pitch_}, stream));
    } else {
      check(cuda::scatter_fp32(job_.spec, a_part, entries_.data(), sketch_of_a(), stream));
    }
    check(cuda::scatter_fp32_narrow(job_.spec, b_part, entries_.data(), sketch_of_b(), stream));
  }
}

/// Column factors of the FP16 sketch: powers of two that bring each column's entries and bucket sums near 2^12, a
/// sixteenth of the largest half. A bucket sums entries with the standard deviation ||a|| sqrt(zeta / d), and eight of
/// those are never reached in practice. With --scaling none: the paper's 1 / sqrt(zeta), whatever the data.
void CudaBackend::exchange() {
  if (!fp16()) return;
  const std::int64_t n = job_.shape.n;
  const cudaStream_t stream = stream_->get();
  std::vector<float> largest(static_cast<std::size_t>(n));
  std::vector<double> squares(largest.size());
  comm_.together([&] {
    check(cudaMemcpyAsync(largest.data(), column_max_.data(), column_max_.bytes(), cudaMemcpyDeviceToHost, stream));
    check(cudaMemcpyAsync(squares.data(), column_squares_.data(), column_squares_.bytes(), cudaMemcpyDeviceToHost,
                          stream));
    stream_->synchronize();
  });
  comm_.max(largest.data(), n);
  comm_.sum(squares.data(), n);
  comm_.together([&] {
    std::vector<float> factor(static_cast<std::size_t>(pitch_), 0.0F);
    std::vector<double> inverse(static_cast<std::size_t>(n));
    for (std::size_t j = 0; j < inverse.size(); ++j) {
      double value = 1 / std::sqrt(double(job_.spec.zeta));
      if (job_.scaling == ScalingChoice::kAuto) {
        const double spread = 8 * std::sqrt(squares[j] * job_.spec.zeta / static_cast<double>(job_.spec.d));
        const double reach = std::max(static_cast<double>(largest[j]), spread);
        constexpr int kTarget = 12, kLeast = -126, kMost = 127;  // the factor itself is a normal float
        const int exponent = reach > 0 && std::isfinite(reach) ? kTarget - std::ilogb(reach) : 0;
        value = std::ldexp(1.0, std::clamp(exponent, kLeast, kMost));
      }
      factor[j] = static_cast<float>(value);
      inverse[j] = 1 / value;
    }
    column_factor_ = DeviceBuffer<float>(pitch_);
    inverse_factor_ = DeviceBuffer<double>(n);
    check(
        cudaMemcpyAsync(column_factor_.data(), factor.data(), column_factor_.bytes(), cudaMemcpyHostToDevice, stream));
    check(cudaMemcpyAsync(inverse_factor_.data(), inverse.data(), inverse_factor_.bytes(), cudaMemcpyHostToDevice,
                          stream));
    stream_->synchronize();
  });
}

void CudaBackend::sketch() {
  for (Lane& lane : *lanes_) finish(lane);
  if (fp16()) {
    Lane& lane = lanes_->front();
    lane.uploaded.record(*stream_);
    const ProblemShape& shape = job_.shape;
    add_rows({slab_a_.data(), job_.rows.size(), shape.n, pitch_, ElementType::kFloat32, job_.rows.begin},
             {slab_b_.data(), job_.rows.size(), shape.r, shape.r, ElementType::kFloat32, job_.rows.begin});
    check(cuda::widen_half({half_sketch_.data(), job_.spec.d, shape.n, pitch_}, inverse_factor_.data(), sketch_of_a(),
                           stream_->get()));
    lane.sketched.record(*stream_);
    stream_->synchronize();
    timer_.add(Phase::kSketch, lane.sketched.seconds_since(lane.uploaded));
  }
  stream_->synchronize();
}

void CudaBackend::reduce() {
  const auto by_nccl = [&](const auto& sketch) { nccl_->sum(sketch.data(), sketch.count(), stream_->get()); };
  const auto by_mpi = [&]<class T>(const DeviceBuffer<T>& sketch) {
    std::vector<T> host;
    comm_.together([&] { host = copy_of(sketch, *stream_); });
    comm_.sum(host.data(), static_cast<std::int64_t>(host.size()));
    comm_.together([&] {
      check(cudaMemcpyAsync(sketch.data(), host.data(), sketch.bytes(), cudaMemcpyHostToDevice, stream_->get()));
      stream_->synchronize();
    });
  };
  timer_.time(Phase::kReduce, [&] {
    if (nccl_) {
      std::visit(by_nccl, sketch_);
    } else if (comm_.size() > 1) {
      std::visit(by_mpi, sketch_);
    }
  });
}

SketchRange CudaBackend::sketch_range() {
  return visit_sketch([&](const auto& sketch) {
    DeviceBuffer<unsigned long long> count(1);
    unsigned long long found = 0;
    check(cudaMemsetAsync(count.data(), 0, count.bytes(), stream_->get()));
    check(cuda::count_non_finite(sketch, count.data(), stream_->get()));
    check(cudaMemcpyAsync(&found, count.data(), sizeof found, cudaMemcpyDeviceToHost, stream_->get()));
    const std::vector<double> largest = column_maxima_on_device(sketch, *stream_);  // waits for the copy too
    return judge_range(largest, found == 0, job_.spec.precision);
  });
}

TriangularFactor CudaBackend::factor() {
  const double scale = 1 / std::sqrt(double(job_.spec.zeta));
  return visit_sketch(
      [&](const auto& sketch) { return qr_of_sketch_on_device(sketch, job_.shape.n, job_.shape.r, scale, *stream_); });
}

std::vector<double> CudaBackend::sketch_copy() {
  return std::visit(
      [&](const auto& sketch) {
        const auto host = copy_of(sketch, *stream_);
        return std::vector<double>(host.begin(), host.end());
      },
      sketch_);
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
