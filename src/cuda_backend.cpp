#include "src/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "kernels/flash.h"
#include "kernels/sketch_cuda.h"
#include "src/communicator.h"
#include "src/cuda_flash.h"
#include "src/cuda_half_reduce.h"
#include "src/cuda_half_sketch.h"
#include "src/cuda_handles.h"
#include "src/cuda_normal_product.h"
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

/// How the rows of a job lie on the device, where they are sketched.
struct DeviceRows {
  ElementType a = ElementType::kFloat32;
  std::int64_t pitch = 0;  // of A; even below FP64, so that pairs are aligned
  ElementType b = ElementType::kFloat32;
  std::int64_t a_row_bytes() const { return pitch * element_size(a); }
};

/// Rows of A and b on the device.
struct RowBuffers {
  DeviceBuffer<std::byte> a, b;
};

/// One chunk on its way: pinned rows, the same rows on the device, and when each step was done.
struct Lane {
  ChunkBuffer chunk;
  PinnedBuffer pinned_a, pinned_b;
  RowBuffers raw;   // as stored, unless they are sketched so
  RowBuffers rows;  // as they are sketched, unless the slab is resident
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
  PlanLimits plan_limits(const SketchSpec& spec, const ProblemShape& shape, bool refine) override;
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
  std::vector<double> sketch_copy() override;
  bool keeps_rows() const override { return job_.refine && resident() && layout_.a == job_.shape.a_type; }
  void normal_begin(const std::vector<double>& x, bool with_b) override;
  void normal_add(const ChunkBuffer& chunk) override;
  void normal_add_kept() override;
  NormalSums normal_end() override;
  SketchTiming time_sketch(const SketchCase& timed, int repeats) override { return time_cuda_sketch(timed, repeats); }
  PassTiming time_pass(const TimedShape& shape, int repeats) override { return time_cuda_pass(shape, repeats); }

 private:
  bool uses_strip(const SketchSpec& spec, std::int64_t n) const {
    return (kernel_ == KernelChoice::kAuto || kernel_ == KernelChoice::kStrip) && StripSketcher::serves(spec, n);
  }
  DeviceRows device_rows(const SketchSpec& spec, const ProblemShape& shape) const;
  bool fp64() const { return job_.spec.precision == SketchPrecision::kFp64; }
  /// FP64 sketches read rows as they are stored; all others read them padded, in FP32 or as the strip engine likes.
  bool as_stored() const { return fp64(); }
  bool resident() const { return job_.plan.residency == Residency::kDevice; }
  std::int64_t cols() const { return job_.shape.n + job_.shape.r; }

  SlabView a_view(const std::byte* data, RowRange rows) const {
    return {data, rows.size(), job_.shape.n, layout_.pitch, layout_.a, rows.begin};
  }
  SlabView b_view(const std::byte* data, RowRange rows) const {
    return {data, rows.size(), job_.shape.r, job_.shape.r, layout_.b, rows.begin};
  }
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
    return std::visit([&]<class T>(const DeviceBuffer<T>&) { return f(sketch_columns<T>(0, cols())); }, sketch_);
  }

  Lane& lane_of(const ChunkBuffer& chunk) {
    return *std::find_if(lanes_->begin(), lanes_->end(), [&](const Lane& l) { return &l.chunk == &chunk; });
  }
  void add_normal_rows(const SlabView& a, const std::byte* b);

  void release();
  RowBuffers make_rows(std::int64_t rows) const;
  void make_lane(Lane& lane) const;
  void clear_sketch();
  void finish(Lane& lane);
  void place(const Lane& lane, std::byte* a, std::byte* b);
  void add_rows(const SlabView& a, const SlabView& b);
  void add_rows_of_a(const SlabView& a);
  bool reduces_halves() const { return job_.reduce == ReducePrecision::kFp16; }
  void sum_by_nccl(const DeviceBuffer<float>& sketch);
  void sum_by_nccl(const DeviceBuffer<double>& sketch);
  void sum_by_mpi(std::vector<float>& sketch) const;
  void sum_by_mpi(std::vector<double>& sketch) const;

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
  DeviceRows layout_;
  RowBuffers slab_;                                                 // resident rows
  std::variant<DeviceBuffer<float>, DeviceBuffer<double>> sketch_;  // (d, n + r), as the precision asks
  DeviceBuffer<std::uint32_t> entries_;                             // scatter
  std::optional<StripSketcher> strip_;                              // the strip engine, where it serves the sketch
  std::optional<HalfSketcher> half_;                 // the sketch of A in 16 bits, where that was asked for
  std::optional<std::array<Lane, kBuffers>> lanes_;  // from begin on
  DeviceBuffer<double> kept_b_;                      // resident rows of b in FP64, for refinement
  std::optional<NormalProduct> normal_;              // from the first refinement pass on
  std::int64_t normal_pitch_ = 0;                    // of A as normal_ was made for
  DeviceBuffer<double> normal_x_, normal_sums_;      // (n, r); (n + 1, r): gradient, then squares
  bool with_b_ = true;                               // of the refinement pass under way
  int next_ = 0;
};

/// The strip engine takes A in half precision as it is stored; all else below FP64 is FP32.
DeviceRows CudaBackend::device_rows(const SketchSpec& spec, const ProblemShape& shape) const {
  if (spec.precision == SketchPrecision::kFp64) return {shape.a_type, shape.n, ElementType::kFloat64};
  const bool halves = element_size(shape.a_type) == 2 && uses_strip(spec, shape.n);
  const ElementType type = halves ? shape.a_type : ElementType::kFloat32;
  return {type, cuda::device_pitch(shape.n, type), ElementType::kFloat32};
}

PlanLimits CudaBackend::plan_limits(const SketchSpec& spec, const ProblemShape& shape, bool refine) {
  release();  // what an earlier job held is free for this one
  PlanLimits limits;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  limits.memory_bytes = memory_limit_ > 0
                            ? static_cast<std::int64_t>(memory_limit_)
                            : std::max<std::int64_t>(1, static_cast<std::int64_t>(free) / ranks_on_device_ - kReserve);
  limits.chunk_buffers = kBuffers;
  const DeviceRows layout = device_rows(spec, shape);
  limits.device_row_bytes = layout.a_row_bytes() + shape.r * element_size(layout.b) + (refine ? shape.r * 8 : 0);
  const bool strip = uses_strip(spec, shape.n);
  limits.scratch_bytes = [=](std::int64_t rows) -> std::int64_t {
    if (strip) return StripSketcher::bytes(spec, shape.n, shape.r, rows, layout.a);
    const std::int64_t half_sketch = is_half(spec.precision) ? HalfSketcher::bytes(spec, shape.n) : 0;
    return kEntryRows * spec.zeta * 4 + half_sketch;
  };
  return limits;
}

/// Gives all memory of the last job back, before that of the next is asked for.
void CudaBackend::release() {
  stream_->synchronize();
  slab_ = {};
  sketch_ = {};
  entries_ = {};
  strip_.reset();
  half_.reset();
  lanes_.reset();
  kept_b_ = {};
  normal_.reset();
  normal_x_ = {};
  normal_sums_ = {};
}

/// Room for rows as they are sketched. Halves become zeros, because they are copied without their padding, which the
/// engine wants finite.
RowBuffers CudaBackend::make_rows(std::int64_t rows) const {
  RowBuffers room{DeviceBuffer<std::byte>(rows * layout_.a_row_bytes()),
                  DeviceBuffer<std::byte>(rows * job_.shape.r * element_size(layout_.b))};
  if (element_size(layout_.a) == 2 && !as_stored()) {
    check(cudaMemsetAsync(room.a.data(), 0, room.a.bytes(), stream_->get()));
  }
  return room;
}

void CudaBackend::make_lane(Lane& lane) const {
  const std::int64_t rows = job_.plan.chunk_rows, a_bytes = rows * job_.shape.a_row_bytes(),
                     b_bytes = rows * job_.shape.r * element_size(ElementType::kFloat64);
  lane.pinned_a = PinnedBuffer(a_bytes);
  lane.pinned_b = PinnedBuffer(b_bytes);
  if (!as_stored()) lane.raw = {DeviceBuffer<std::byte>(a_bytes), DeviceBuffer<std::byte>(b_bytes)};
  if (!resident()) lane.rows = make_rows(rows);
  lane.chunk = {lane.pinned_a.data(), static_cast<double*>(lane.pinned_b.data()), {}};
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
  const bool scales = HalfSketcher::scales(job.spec, job.scaling);
  require(!scales || resident() || job.rows.empty(), ErrorKind::kUsage,
          "--precision fp16 needs A in device memory, because its column scales come first; A does not fit, so use "
          "--precision fp32 (as fast when A is streamed), more GPUs, or --scaling none");
  const bool strip = uses_strip(job.spec, shape.n);
  require(strip || kernel_ != KernelChoice::kStrip, ErrorKind::kUsage, StripSketcher::kNeeds);
  if (kernel_ == KernelChoice::kFlash) require_flash(job.spec);
  layout_ = device_rows(job.spec, shape);
  if (resident()) slab_ = make_rows(job.rows.size());
  if (keeps_rows()) kept_b_ = DeviceBuffer<double>(job.rows.size() * shape.r);
  clear_sketch();
  const std::int64_t most_rows = std::max<std::int64_t>(1, std::min(job.rows.size(), job.plan.chunk_rows));
  if (strip) {
    strip_.emplace(job.spec, shape.n, shape.r, most_rows, layout_.a);
  } else {
    const std::int64_t rows = std::min(kEntryRows, scales ? std::max<std::int64_t>(1, job.rows.size()) : most_rows);
    entries_ = DeviceBuffer<std::uint32_t>(rows * job.spec.zeta);
  }
  if (is_half(job.spec.precision)) half_.emplace(job.spec, shape.n, job.scaling, *stream_);
  lanes_.emplace();
  for (Lane& lane : *lanes_) make_lane(lane);
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

/// Brings the lane's raw rows into the type and pitch that they are sketched in.
void CudaBackend::place(const Lane& lane, std::byte* a, std::byte* b) {
  const ProblemShape& shape = job_.shape;
  const RowRange rows = lane.chunk.rows;
  const cudaStream_t stream = stream_->get();
  check(cuda::convert_to_float({lane.raw.b.data(), rows.size(), shape.r, shape.r, ElementType::kFloat64, rows.begin},
                               reinterpret_cast<float*>(b), shape.r, stream));
  if (layout_.a == ElementType::kFloat32) {
    check(cuda::convert_to_float({lane.raw.a.data(), rows.size(), shape.n, shape.n, shape.a_type, rows.begin},
                                 reinterpret_cast<float*>(a), layout_.pitch, stream));
    return;
  }
  const auto row_bytes = static_cast<std::size_t>(shape.a_row_bytes());
  check(cudaMemcpy2DAsync(a, static_cast<std::size_t>(layout_.a_row_bytes()), lane.raw.a.data(), row_bytes, row_bytes,
                          static_cast<std::size_t>(rows.size()), cudaMemcpyDeviceToDevice, stream));
}

void CudaBackend::upload(const ChunkBuffer& chunk) {
  Lane& lane = lane_of(chunk);
  const ProblemShape& shape = job_.shape;
  const cudaStream_t stream = stream_->get();
  const std::int64_t rows = chunk.rows.size();
  const std::int64_t local = resident() ? chunk.rows.begin - job_.rows.begin : 0;
  const RowBuffers& room = resident() ? slab_ : lane.rows;
  std::byte* const a = room.a.data() + local * layout_.a_row_bytes();
  std::byte* const b = room.b.data() + local * shape.r * element_size(layout_.b);

  lane.start.record(*stream_);
  check(cudaMemcpyAsync(as_stored() ? a : lane.raw.a.data(), chunk.a,
                        static_cast<std::size_t>(rows * shape.a_row_bytes()), cudaMemcpyHostToDevice, stream));
  check(cudaMemcpyAsync(as_stored() ? b : lane.raw.b.data(), chunk.b, static_cast<std::size_t>(rows * shape.r) * 8,
                        cudaMemcpyHostToDevice, stream));
  if (keeps_rows()) {
    check(cudaMemcpyAsync(kept_b_.data() + local * shape.r, chunk.b, static_cast<std::size_t>(rows * shape.r) * 8,
                          cudaMemcpyHostToDevice, stream));
  }
  lane.uploaded.record(*stream_);
  if (!as_stored()) place(lane, a, b);
  if (half_ && half_->scales()) {
    half_->measure(a_view(a, chunk.rows), *stream_);
  } else {
    add_rows(a_view(a, chunk.rows), b_view(b, chunk.rows));
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
    const SlabView b_part = rows_of(b, done, rows);
    check(cuda::fill_entries(job_.spec, a.first_row + done, rows, entries_.data(), stream));
    add_rows_of_a(rows_of(a, done, rows));
    if (fp64()) {
      check(cuda::scatter_fp64(job_.spec, b_part, entries_.data(), sketch_of_b<double>(), stream));
    } else {
      check(cuda::scatter_fp32_narrow(job_.spec, b_part, entries_.data(), sketch_of_b(), stream));
    }
  }
}

/// Adds S a, by the entries of these rows.
void CudaBackend::add_rows_of_a(const SlabView& a) {
  const cudaStream_t stream = stream_->get();
  if (fp64()) {
    check(cuda::scatter_fp64(job_.spec, a, entries_.data(), sketch_of_a<double>(), stream));
  } else if (half_) {
    half_->add(a, entries_.data(), *stream_);
  } else if (kernel_ == KernelChoice::kFlash) {
    check(cuda::flash_fp32(job_.spec, a, entries_.data(), sketch_of_a(), stream));
  } else {
    check(cuda::scatter_fp32(job_.spec, a, entries_.data(), sketch_of_a(), stream));
  }
}

void CudaBackend::exchange() {
  if (half_ && half_->scales()) half_->choose_factors(comm_, *stream_);
}

void CudaBackend::sketch() {
  for (Lane& lane : *lanes_) finish(lane);
  if (half_) {
    Lane& lane = lanes_->front();
    lane.uploaded.record(*stream_);
    if (half_->scales()) add_rows(a_view(slab_.a.data(), job_.rows), b_view(slab_.b.data(), job_.rows));
    half_->finish(sketch_of_a(), *stream_);
    lane.sketched.record(*stream_);
    stream_->synchronize();
    timer_.add(Phase::kSketch, lane.sketched.seconds_since(lane.uploaded));
  }
  stream_->synchronize();
}

void CudaBackend::sum_by_nccl(const DeviceBuffer<float>& sketch) {
  if (reduces_halves()) {
    sum_in_halves_on_device(*nccl_, comm_, sketch_columns<float>(0, cols()), job_.shape.n, *stream_);
  } else {
    nccl_->sum(sketch.data(), sketch.count(), stream_->get());
  }
}
void CudaBackend::sum_by_nccl(const DeviceBuffer<double>& sketch) {
  nccl_->sum(sketch.data(), sketch.count(), stream_->get());
}

void CudaBackend::sum_by_mpi(std::vector<float>& sketch) const {
  if (reduces_halves()) {
    sum_in_halves(comm_, sketch, job_.spec.d, job_.shape.n, job_.shape.r);
  } else {
    comm_.sum(sketch.data(), static_cast<std::int64_t>(sketch.size()));
  }
}
void CudaBackend::sum_by_mpi(std::vector<double>& sketch) const {
  comm_.sum(sketch.data(), static_cast<std::int64_t>(sketch.size()));
}

void CudaBackend::reduce() {
  const auto by_nccl = [&](const auto& sketch) { sum_by_nccl(sketch); };
  const auto by_mpi = [&]<class T>(const DeviceBuffer<T>& sketch) {
    std::vector<T> host;
    comm_.together([&] { host = copy_of(sketch, *stream_); });
    sum_by_mpi(host);
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

void CudaBackend::normal_begin(const std::vector<double>& x, bool with_b) {
  const std::int64_t n = job_.shape.n, r = job_.shape.r;
  with_b_ = with_b;
  if (normal_x_.count() == 0) {
    normal_x_ = DeviceBuffer<double>(n * r);
    normal_sums_ = DeviceBuffer<double>((n + 1) * r);
  }
  check(cudaMemcpyAsync(normal_x_.data(), x.data(), normal_x_.bytes(), cudaMemcpyHostToDevice, stream_->get()));
  check(cudaMemsetAsync(normal_sums_.data(), 0, normal_sums_.bytes(), stream_->get()));
  stream_->synchronize();
}

/// a in its stored type; b in FP64, dense
void CudaBackend::add_normal_rows(const SlabView& a, const std::byte* b) {
  const std::int64_t n = job_.shape.n, r = job_.shape.r;
  if (a.rows == 0) return;
  if (!normal_ || normal_pitch_ != a.pitch) normal_.emplace(n, a.pitch, r, a.type);
  normal_pitch_ = a.pitch;
  normal_->add(a, {with_b_ ? b : nullptr, a.rows, r, r, ElementType::kFloat64, a.first_row}, normal_x_.data(),
               normal_sums_.data(), normal_sums_.data() + n * r, *stream_);
}

void CudaBackend::normal_add(const ChunkBuffer& chunk) {
  const Lane& lane = lane_of(chunk);
  const ProblemShape& shape = job_.shape;
  const std::int64_t rows = chunk.rows.size();
  const RowBuffers& room = as_stored() ? lane.rows : lane.raw;
  check(cudaMemcpyAsync(room.a.data(), chunk.a, static_cast<std::size_t>(rows * shape.a_row_bytes()),
                        cudaMemcpyHostToDevice, stream_->get()));
  check(cudaMemcpyAsync(room.b.data(), chunk.b, static_cast<std::size_t>(rows * shape.r) * 8, cudaMemcpyHostToDevice,
                        stream_->get()));
  add_normal_rows({room.a.data(), rows, shape.n, shape.n, shape.a_type, chunk.rows.begin}, room.b.data());
  stream_->synchronize();  // the buffer is the caller's again
}

void CudaBackend::normal_add_kept() {
  add_normal_rows(a_view(slab_.a.data(), job_.rows), reinterpret_cast<const std::byte*>(kept_b_.data()));
}

NormalSums CudaBackend::normal_end() {
  const std::vector<double> sums = copy_of(normal_sums_, *stream_);
  const auto gradient = sums.begin() + job_.shape.n * job_.shape.r;
  return {{sums.begin(), gradient}, {gradient, sums.end()}};
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
