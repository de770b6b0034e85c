#include "src/host_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "kernels/decode_host.h"
#include "kernels/normal_product_host.h"
#include "kernels/read_pass_host.h"
#include "kernels/sketch_host.h"
#include "src/communicator.h"
#include "src/device_row_limits.h"
#include "src/direct_qr.h"
#include "src/error.h"
#include "src/half_reduce.h"
#include "src/host_buffer.h"
#include "src/host_gram.h"
#include "src/host_half_sketch.h"
#include "src/host_memory.h"
#include "src/host_reduce_timing.h"
#include "src/host_solve_costs.h"
#include "src/host_threads.h"
#include "src/host_timing.h"
#include "src/row_pass.h"
#include "src/sketch_factor.h"
#include "src/text.h"

namespace tallsketch {

namespace {

class HostBackend final : public Backend {
 public:
  HostBackend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer, int threads)
      : comm_(comm),
        timer_(timer),
        threads_(threads),
        memory_limit_(options.memory_bytes),
        residency_(options.residency),
        kernel_(options.kernel),
        emulates_half_(options.emulate_half) {}

  const char* name() const override { return "host"; }
  RankPlace place() const override {
    RankPlace place;
    place.host = comm_.host();
    place.device = fmt::format("{} thread{}", threads_, plural(threads_));
    return place;
  }
  PlanLimits plan_limits(const SketchJob& job) override {
    release(job.kept);  // what an earlier job held is free for this one
    PlanLimits limits;
    if (memory_limit_ > 0) {
      limits.memory_bytes = static_cast<std::int64_t>(memory_limit_);
      limits.memory_bound = MemoryBound::kAsked;
    } else {
      const MemoryShare share = host_memory_share(comm_.node_size(), threads_);
      // 0: unknown, and then what this job holds is no measure either.
      limits.memory_bytes = share.bytes == 0 ? 0 : usable(share.bytes) + slab_a_.bytes() + slab_b_.bytes();
      limits.memory_bound = share.bound;
    }
    limits.asked = residency_;
    limits.source_bytes = job.source_bytes;
    limits.sketch_copies = job.sketch_copies;
    limits.kept_residency = Residency::kHost;
    const bool scales = job.compression == Compression::kSketch && scales_by_data(job.spec, job.scaling);
    const bool keeps = job.refine || job.kept || scales || residency_ == ResidencyChoice::kHost;
    limits.kept_row_bytes = keeps ? job.shape.row_bytes() : 0;
    limits.kept_chunk_row_bytes = is_plain(job) ? 0 : kLanes * encoded_row_bytes(job);
    limits.chunk_row_bytes = kLanes * (encoded_row_bytes(job) + job.shape.r * element_size(ElementType::kFloat64)) +
                             (is_plain(job) ? 0 : job.shape.a_row_bytes());
    limits.scratch_bytes = [this, spec = job.spec, shape = job.shape, refine = job.refine,
                            compression = job.compression](std::int64_t) {
      return (compression == Compression::kGram
                  ? HostGram::bytes(shape.n, shape.r, threads_)
                  : sketcher_bytes(spec, shape) +
                        HostGram::bytes(shape.n, shape.r, threads_, HostGram::kSegmentsOfSketch)) +
             (refine ? host::normal_workspace_bytes(shape.n, shape.r, threads_) : 0);
    };
    return limits;
  }

  SolveCosts solve_costs(const ProblemShape& shape, std::int64_t rows, RowPlace place) const override {
    return host_solve_costs(shape, rows, place, threads_);
  }

  void begin(const SketchJob& job) override {
    require(!is_half(job.spec.precision) || emulates_half_, ErrorKind::kUsage,
            fmt::format("--precision {} runs on GPUs only, where it saves time; on the host backend use fp32",
                        to_word(job.spec.precision)));
    require(kernel_ == KernelChoice::kAuto, ErrorKind::kUsage,
            "--kernel chooses between GPU kernels; the host backend has one");
    release(job.kept);
    job_ = job;
    const ProblemShape& shape = job.shape;
    if (!job.kept) make_room(job);
    if (is_gram()) {
      restart_sketch();
      return;
    }
    const auto elements = static_cast<std::size_t>(job.spec.d * cols());
    if (is_half(job.spec.precision)) {
      half_.emplace(job.spec, shape.n, shape.r, job.scaling, threads_);
      require(keeps_rows() || !half_->scales(), ErrorKind::kUsage,
              "--precision fp16 needs A in memory, because its column scales come first; A does not fit, so use "
              "--precision fp32, more --memory, or --scaling none");
      sketch_ = std::vector<float>(elements);
      return;
    }
    const std::int64_t scratch = host::sketch_workspace_bytes(job.spec, shape.n, shape.r, threads_);
    scratch_ = HostBuffer(scratch);
    workspace_ = {scratch_.data(), scratch, shape.n, shape.r, threads_};
    if (job.spec.precision == SketchPrecision::kFp64) {
      sketch_ = std::vector<double>(elements);
    } else {
      sketch_ = std::vector<float>(elements);
    }
    restart_sketch();
  }

  void restart_sketch() override {
    if (is_gram()) {
      gram_.emplace(job_.shape.n, job_.shape.r, threads_);
    } else {
      host::sketch_begin(job_.spec, job_.shape.n, job_.shape.r, workspace_);
    }
  }

  /// Kept rows are read into their place, A only where it is not encoded.
  ChunkBuffer& next_buffer(RowRange rows) override {
    Lane& lane = lanes_[next_];
    next_ = (next_ + 1) % lanes_.size();
    lane.chunk = {lane.a.data(), reinterpret_cast<double*>(lane.b.data()), rows};
    if (keeps_rows()) {
      const ChunkBuffer place = kept(rows);
      lane.chunk.b = place.b;
      if (is_plain(job_)) lane.chunk.a = place.a;
    }
    return lane.chunk;
  }
  int lanes() const override { return kLanes; }

  void upload(const ChunkBuffer& chunk) override {
    const ChunkBuffer rows = decoded(chunk);
    if (!chunk.known) timer_.time(Phase::kSketch, [&] { add_to_sketch(rows); });
  }

  void take_kept() override {
    timer_.time(Phase::kSketch, [&] { for_each_kept_chunk([&](const ChunkBuffer& rows) { add_to_sketch(rows); }); });
  }

  void exchange() override {
    if (half_ && half_->scales()) half_->choose_factors(comm_);
  }

  void sketch() override {
    const auto sum_up = [&]<class T>(std::vector<T>& sketch) {
      host::sketch_end(job_.spec, workspace_, SketchView<T>{sketch.data(), job_.spec.d, cols(), cols()});
    };
    timer_.time(Phase::kSketch, [&] {
      if (is_gram()) {
        sketch_ = gram_->upper();
        gram_.reset();
      } else if (half_) {
        if (half_->scales()) for_each_kept_chunk([&](const ChunkBuffer& rows) { half_->add(a_of(rows), b_of(rows)); });
        half_->finish(std::get<std::vector<float>>(sketch_).data());
      } else {
        std::visit(sum_up, sketch_);
      }
    });
  }

  void add_partial(const std::vector<double>& sketch) override {
    const auto add = [&]<class T>(std::vector<T>& own) {
      require(sketch.size() == own.size(), ErrorKind::kInternal,
              fmt::format("{} elements added to a sketch of {}", sketch.size(), own.size()));
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += static_cast<T>(sketch[i]);
    };
    std::visit(add, sketch_);
  }

  void reduce() override {
    const auto sum = [&](auto& sketch) { comm_.sum(sketch.data(), static_cast<std::int64_t>(sketch.size())); };
    timer_.time(Phase::kReduce, [&] {
      if (job_.reduce == ReducePrecision::kFp16 && !is_gram()) {  // of FP32 sketches only
        sum_in_halves(comm_, std::get<std::vector<float>>(sketch_), job_.spec.d, job_.shape.n, job_.shape.r);
      } else {
        std::visit(sum, sketch_);
      }
    });
  }

  RoundingLosses losses() override { return half_ ? half_->losses() : RoundingLosses{}; }

  SketchRange sketch_range() override {
    const auto judge = [&](const auto& sketch) {
      const bool finite = std::all_of(sketch.begin(), sketch.end(), [](auto value) { return std::isfinite(value); });
      return judge_range(column_sizes(sketch), finite, job_.accumulates());
    };
    return std::visit(judge, sketch_);
  }

  std::optional<TriangularFactor> factor(const FactorChoice& choice) override {
    const ProblemShape& shape = job_.shape;
    if (is_gram()) {
      return cholesky_of_gram(std::get<std::vector<double>>(sketch_), shape.n, shape.r,
                              {kUnitRoundoffOf<double>, 1, choice.ridge, choice.exponents});
    }
    const auto of_sketch = [&]<class T>(const std::vector<T>& sketch) -> std::optional<TriangularFactor> {
      if (choice.method == FactorMethod::kCholesky) {
        return cholesky_of_gram(gram_of_sketch(sketch, shape.n, shape.r, choice.unused, threads_), shape.n, shape.r,
                                {kUnitRoundoffOf<T>, scale(), choice.ridge, choice.exponents});
      }
      TriangularFactor factor = qr_of_sketch(sketch, job_.spec.d, shape.n, shape.r, scale(), choice.unused);
      add_ridge(choice.ridge, choice.exponents, factor);
      return factor;
    };
    return std::visit(of_sketch, sketch_);
  }

  std::vector<double> sketch_residual(const std::vector<double>& x) override {
    return std::visit(
        [&](const auto& sketch) {
          return residual_of_sketch(sketch, job_.spec.d, job_.shape.n, job_.shape.r, scale(), x);
        },
        sketch_);
  }

  bool keeps_rows() const override { return job_.plan.residency == Residency::kHost; }

  void normal_begin(const std::vector<double>& x, bool with_b) override {
    const ProblemShape& shape = job_.shape;
    if (normal_scratch_.bytes() == 0) {
      normal_scratch_ = HostBuffer(host::normal_workspace_bytes(shape.n, shape.r, threads_));
    }
    with_b_ = with_b;
    host::normal_begin(x.data(), normal_workspace());
  }

  void normal_add(const ChunkBuffer& chunk) override { add_to_normal(decoded(chunk)); }

  /// In the chunks of the first pass: the order of summation is that of rows that are not kept.
  void normal_add_kept() override {
    for_each_kept_chunk([&](const ChunkBuffer& rows) { add_to_normal(rows); });
  }

  NormalSums normal_end() override {
    NormalSums sums{std::vector<double>(static_cast<std::size_t>(job_.shape.n * job_.shape.r)),
                    std::vector<double>(static_cast<std::size_t>(job_.shape.r))};
    host::normal_end(normal_workspace(), sums.gradient.data(), sums.residual_squares.data());
    return sums;
  }

  void make_up(const MadeUpProblem& problem, std::vector<double>& b_squares) override {
    require(keeps_rows(), ErrorKind::kUsage, "made-up rows do not fit into memory; use a smaller --bytes");
    const ProblemShape& shape = job_.shape;
    const std::vector<double> mix = mixing_matrix(problem, shape);
    constexpr std::int64_t kRows = 1024;  // at a time
    for_each_chunk(job_.rows, kRows, [&](RowRange rows) {
      const ChunkBuffer chunk = kept(rows);
      make_rows(problem, shape, mix, rows, chunk.a, chunk.b);
      for (std::int64_t i = 0; i < rows.size() * shape.r; ++i) {
        b_squares[static_cast<std::size_t>(i % shape.r)] += chunk.b[i] * chunk.b[i];
      }
    });
  }

  std::vector<double> solve_by_qr(double& seconds) override {
    const ProblemShape& shape = job_.shape;
    return direct_qr(a_of(kept(job_.rows)), b_of(kept(job_.rows)), shape, seconds);
  }

  double read_floor(int repeats) override {
    // Read as floats, whatever the type: what the bits mean does not matter.
    const SlabView a{slab_a_.data(), job_.rows.size() * job_.shape.a_row_bytes() / 4, 1, 1, ElementType::kFloat32, 0};
    std::vector<double> seconds;
    volatile double sink = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      seconds.push_back(seconds_of([&] { sink = host::read_pass(a, threads_); }));
    }
    return median(seconds);
  }

  std::vector<double> sketch_copy() override {
    return std::visit([](const auto& sketch) { return std::vector<double>(sketch.begin(), sketch.end()); }, sketch_);
  }

  SketchTiming time_sketch(const SketchCase& timed, int repeats) override {
    require(timed.family != BenchFamily::kFlashBlockRow, ErrorKind::kUsage,
            "--family flashblockrow is measured on GPUs only");
    require(!is_half(timed.spec.precision), ErrorKind::kUsage,
            fmt::format("--precision {} is measured on GPUs only", to_word(timed.spec.precision)));
    if (timed.kernel == BenchKernel::kGaussian) {
      return time_host_gaussian(timed.spec.d, timed.spec.seed, timed.shape, repeats, threads_);
    }
    require(timed.kernel == BenchKernel::kAuto, ErrorKind::kUsage,
            "--kernel chooses between GPU kernels; the host has one, --kernel auto");
    return time_host_sketch(timed.spec, timed.shape, repeats, threads_);
  }

  ReduceTiming time_reduce(const ReduceCase& timed, int repeats) override {
    return time_host_reduce(timed, repeats, comm_);
  }

  PassTiming time_pass(const TimedShape& shape, int repeats) override {
    return time_host_pass(shape, repeats, threads_);
  }

 private:
  static constexpr int kLanes = 2;  // one is filled while the other is computed with

  /// One chunk on its way, as it is encoded.
  struct Lane {
    HostBuffer a, b;
    ChunkBuffer chunk;
  };

  /// Gives the memory of the last job back, before that of the next is asked for.
  void release(bool but_for_rows) {
    if (!but_for_rows) {
      slab_a_ = {};
      slab_b_ = {};
    }
    for (Lane& lane : lanes_) lane = {};
    decoded_ = {};
    scratch_ = {};
    normal_scratch_ = {};
    gram_.reset();
    half_.reset();
    sketch_ = {};
  }

  bool is_gram() const { return job_.compression == Compression::kGram; }
  std::int64_t sketcher_bytes(const SketchSpec& spec, const ProblemShape& shape) const {
    return is_half(spec.precision) ? HostHalfSketch::bytes(spec, shape.n, shape.r)
                                   : host::sketch_workspace_bytes(spec, shape.n, shape.r, threads_);
  }
  std::int64_t cols() const { return job_.shape.n + job_.shape.r; }
  double scale() const { return 1 / std::sqrt(double(job_.spec.zeta)); }

  static bool is_plain(const SketchJob& job) { return job.encoding == plain_encoding(job.shape.a_type); }
  static std::int64_t encoded_row_bytes(const SketchJob& job) { return job.shape.n * stored_size(job.encoding.type); }

  /// For the rows that are kept, and for chunks on their way.
  void make_room(const SketchJob& job) {
    const ProblemShape& shape = job.shape;
    const std::int64_t b_row_bytes = shape.r * element_size(ElementType::kFloat64);
    const std::int64_t chunk_rows = std::min(job.plan.chunk_rows, job.rows.size());
    if (keeps_rows()) {
      slab_a_ = HostBuffer(job.rows.size() * shape.a_row_bytes());
      slab_b_ = HostBuffer(job.rows.size() * b_row_bytes);
    } else if (!is_plain(job)) {
      decoded_ = HostBuffer(chunk_rows * shape.a_row_bytes());
    }
    for (Lane& lane : lanes_) {
      if (!keeps_rows() || !is_plain(job)) lane.a = HostBuffer(chunk_rows * encoded_row_bytes(job));
      if (!keeps_rows()) lane.b = HostBuffer(chunk_rows * b_row_bytes);
    }
  }

  /// In the chunks of the plan.
  template <class F>
  void for_each_kept_chunk(F&& visit) {
    for_each_chunk(job_.rows, job_.plan.chunk_rows, [&](RowRange rows) { visit(kept(rows)); });
  }
  /// Rows in the slab.
  ChunkBuffer kept(RowRange rows) {
    const ProblemShape& shape = job_.shape;
    const std::int64_t local = rows.begin - job_.rows.begin;
    return {slab_a_.data() + local * shape.a_row_bytes(), reinterpret_cast<double*>(slab_b_.data()) + local * shape.r,
            rows};
  }
  /// The rows of a chunk as they are computed with: in the slab where rows are kept.
  ChunkBuffer decoded(const ChunkBuffer& chunk) {
    if (is_plain(job_)) return chunk;
    const ProblemShape& shape = job_.shape;
    void* const a = keeps_rows() ? kept(chunk.rows).a : decoded_.data();
    host::decode({chunk.a, chunk.rows.size(), shape.n, job_.encoding}, a, shape.a_type, threads_);
    return {a, chunk.b, chunk.rows, chunk.lane};
  }
  void add_to_sketch(const ChunkBuffer& chunk) {
    if (is_gram()) {
      gram_->add(a_of(chunk), b_of(chunk));
    } else if (half_ && half_->scales()) {
      half_->measure(a_of(chunk));
    } else if (half_) {
      half_->add(a_of(chunk), b_of(chunk));
    } else {
      host::sketch_add(job_.spec, a_of(chunk), b_of(chunk), workspace_);
    }
  }
  void add_to_normal(const ChunkBuffer& chunk) {
    SlabView b = b_of(chunk);
    if (!with_b_) b.data = nullptr;
    host::normal_add(a_of(chunk), b, normal_workspace());
  }

  SlabView a_of(const ChunkBuffer& chunk) const {
    return {chunk.a, chunk.rows.size(), job_.shape.n, job_.shape.n, job_.shape.a_type, chunk.rows.begin};
  }
  SlabView b_of(const ChunkBuffer& chunk) const {
    return {chunk.b, chunk.rows.size(), job_.shape.r, job_.shape.r, ElementType::kFloat64, chunk.rows.begin};
  }

  /// What the range of a column is judged by: its largest element, or its norm.
  template <class T>
  std::vector<double> column_sizes(const std::vector<T>& sketch) const {
    if (!is_gram()) return column_maxima(sketch, job_.spec.d, cols());
    std::vector<double> norms;
    for (std::int64_t j = 0; j < cols(); ++j) {
      norms.push_back(std::sqrt(double{sketch[static_cast<std::size_t>(j * (cols() + 1))]}));
    }
    return norms;
  }

  host::NormalWorkspace normal_workspace() {
    return {normal_scratch_.data(), normal_scratch_.bytes(), job_.shape.n, job_.shape.r, threads_};
  }

  const Communicator& comm_;
  PhaseTimer& timer_;
  int threads_;
  std::uint64_t memory_limit_;
  ResidencyChoice residency_;
  KernelChoice kernel_;
  bool emulates_half_;
  SketchJob job_;
  HostBuffer slab_a_, slab_b_;  // the rows that are kept
  std::array<Lane, kLanes> lanes_;
  std::size_t next_ = 0;
  HostBuffer decoded_;  // A of one chunk, where rows are not kept
  HostBuffer scratch_, normal_scratch_;
  std::optional<HostGram> gram_;        // while rows are added
  std::optional<HostHalfSketch> half_;  // of a 16-bit sketch
  bool with_b_ = true;                  // of the refinement pass under way
  host::SketchWorkspace workspace_;
  // (d, n + r), as the spec's precision asks; or the upper triangle of the Gram matrix, (n + r, n + r) column-major
  std::variant<std::vector<float>, std::vector<double>> sketch_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer,
                                           int threads) {
  return std::make_unique<HostBackend>(options, comm, timer, threads > 0 ? threads : host_threads(comm));
}

}  // namespace tallsketch
