// The pipeline from a source to a backend: every row once, in order, in every residency and encoding; errors of the reader.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/sketch_rule.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/plan.h"
#include "src/read_ahead.h"
#include "src/row_pass.h"
#include "src/sketch_identity.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/exact_source.h"
#include "tests/support/mpi_check.h"
#include "tests/support/test_backend.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The rows of another source of float32, stored as 16-bit integers, big-endian, by columns.
class EncodedSource final : public RowSource {
 public:
  explicit EncodedSource(RowSource& source) : source_(source) {}
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  void read(RowRange rows, void* a, double* b) override { source_.read(rows, a, b); }
  Encoding encoding() const override { return {StoredType::kInt16, true, true}; }
  void read_encoded(RowRange rows, void* a, double* b) override {
    const std::int64_t n = shape().n;
    std::vector<float> values(static_cast<std::size_t>(rows.size() * n));
    source_.read(rows, values.data(), b);
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const auto value = static_cast<std::uint16_t>(values[static_cast<std::size_t>(i * n + j)]);
        const auto swapped = static_cast<std::uint16_t>(value << 8 | value >> 8);
        std::memcpy(static_cast<char*>(a) + 2 * (j * rows.size() + i), &swapped, 2);
      }
    }
  }

 private:
  RowSource& source_;
};

/// A source that fails from a row on.
class FailingSource final : public RowSource {
 public:
  FailingSource(RowSource& source, std::int64_t first_bad) : source_(source), first_bad_(first_bad) {}
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  void read(RowRange rows, void* a, double* b) override {
    if (failures > 0) ++reads_after_failure;
    if (rows.end > first_bad_) ++failures;
    require(rows.end <= first_bad_, ErrorKind::kInput, "row is unreadable");
    source_.read(rows, a, b);
  }
  std::atomic<int> failures = 0, reads_after_failure = 0;

 private:
  RowSource& source_;
  std::int64_t first_bad_;
};

/// Counts the rows that are read of a source, and the reads of none.
class CountingSource final : public RowSource {
 public:
  explicit CountingSource(RowSource& source) : source_(source) {}
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  void read(RowRange rows, void* a, double* b) override {
    rows_read += rows.size();
    if (rows.size() == 0) ++empty_reads;
    source_.read(rows, a, b);
  }
  std::atomic<std::int64_t> rows_read = 0, empty_reads = 0;

 private:
  RowSource& source_;
};

/// A source whose reads wait until they are let through.
class GatedSource final : public RowSource {
 public:
  explicit GatedSource(RowSource& source) : source_(source) {}
  const ProblemShape& shape() const override { return source_.shape(); }
  const SourceInfo& info() const override { return source_.info(); }
  void read(RowRange rows, void* a, double* b) override {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return begun_ <= let_through_; });
    source_.read(rows, a, b);
  }
  void let_through(int reads) {
    const std::lock_guard lock(mutex_);
    let_through_ = reads;
    changed_.notify_all();
  }
  void wait_for_begun(int reads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= reads; });
  }
  int begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

 private:
  RowSource& source_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0, let_through_ = 0;
};

struct World {
  Communicator comm{MPI_COMM_WORLD};
  PhaseTimer timer;
  std::map<ResidencyChoice, std::unique_ptr<Backend>> backends = {};

  Backend& backend(ResidencyChoice residency) {
    RunOptions options = run_options();
    options.residency = residency;
    auto& backend = backends[residency];
    if (!backend) backend = make_backend(options, comm, timer);
    return *backend;
  }
};

/// The reduced sketch, and the sums of a refinement pass over the same rows.
struct Sums {
  std::vector<double> sketch;
  NormalSums normal;
  bool operator==(const Sums& other) const {
    return sketch == other.sketch && normal.gradient == other.normal.gradient &&
           normal.residual_squares == other.normal.residual_squares;
  }
};

Sums sums_of(RowSource& source, ResidencyChoice residency, std::int64_t chunk_rows, World& world) {
  Backend* const backend = &world.backend(residency);
  SketchJob job;
  job.shape = source.shape();
  job.encoding = source.encoding();
  job.spec = make_sketch_spec(job.shape, {});
  job.refine = true;
  Sums sums;
  world.comm.together([&] {
    PlanLimits limits = backend->plan_limits(job);
    limits.chunk_rows = chunk_rows;
    job.plan = make_plan(job.shape, job.spec, world.comm.size(), limits);
    job.rows = job.plan.rank_rows[static_cast<std::size_t>(world.comm.rank())];
    backend->begin(job);
    read_chunks(job.rows, job.plan.chunk_rows, source, *backend, world.timer,
                [&](const ChunkBuffer& chunk) { backend->upload(chunk); });
    backend->sketch();
  });
  backend->reduce();
  world.comm.together([&] {
    sums.sketch = backend->sketch_copy();
    backend->normal_begin(std::vector<double>(static_cast<std::size_t>(job.shape.n * job.shape.r), 1.0), true);
    if (backend->keeps_rows()) {
      backend->normal_add_kept();
    } else {
      read_chunks(job.rows, job.plan.chunk_rows, source, *backend, world.timer,
                  [&](const ChunkBuffer& chunk) { backend->normal_add(chunk); });
    }
    sums.normal = backend->normal_end();
  });
  world.comm.sum(sums.normal.gradient.data(), static_cast<std::int64_t>(sums.normal.gradient.size()));
  world.comm.sum(sums.normal.residual_squares.data(), static_cast<std::int64_t>(sums.normal.residual_squares.size()));
  return sums;
}

}  // namespace

TEST_CASE("Sketch and refinement pass are the same bits in every residency, encoding and chunking") {
  World world;
  for (const std::int64_t n : {1, 8, 13}) {
    CAPTURE(n);
    ExactSource plain(5003, n, 2, ElementType::kFloat32);
    EncodedSource encoded(plain);
    const Sums expected = sums_of(plain, ResidencyChoice::kFile, 5003, world);
    for (const ResidencyChoice residency : {ResidencyChoice::kAuto, ResidencyChoice::kHost, ResidencyChoice::kFile}) {
      for (const std::int64_t chunk_rows : {std::int64_t{61}, std::int64_t{512}, std::int64_t{100'000}}) {
        CAPTURE(to_word(residency), chunk_rows);
        MPI_REQUIRE(sums_of(plain, residency, chunk_rows, world) == expected);
        MPI_REQUIRE(sums_of(encoded, residency, chunk_rows, world) == expected);
      }
    }
  }
}

TEST_CASE("A read that fails in the reader's thread is the pass's error, and no further row is read") {
  World world;
  ExactSource plain(4000, 5, 1, ElementType::kFloat32);
  FailingSource failing(plain, 1000);
  try {
    sums_of(failing, ResidencyChoice::kFile, 100, world);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kInput);
    CHECK_THAT(e.what(), ContainsSubstring("row is unreadable"));
  }
  CHECK(failing.reads_after_failure == 0);
}

TEST_CASE("What was asked for behind a read that fails is not read") {
  ExactSource plain(4000, 5, 1, ElementType::kFloat32);
  FailingSource failing(plain, 1500);
  std::vector<float> a(4000 * 5);
  std::vector<double> b(4000);
  {
    ReadAhead reader(failing);
    for (std::int64_t k = 0; k < 4; ++k) {
      reader.request({a.data() + 5000 * k, b.data() + 1000 * k, {1000 * k, 1000 * k + 1000}});
    }
    reader.await();
    CHECK(error_kind_of([&] { reader.await(); }) == ErrorKind::kInput);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for a reader that goes on
  }
  CHECK(failing.failures == 1);
  CHECK(failing.reads_after_failure == 0);
}

TEST_CASE("A reader that is given up in the middle ends after the read under way") {
  constexpr int kRequests = 8;
  ExactSource plain(kRequests * 10, 5, 1, ElementType::kFloat32);
  std::vector<float> a(kRequests * 10 * 5);
  std::vector<double> b(kRequests * 10);
  for (int awaited = 0; awaited < 3; ++awaited) {
    GatedSource gated(plain);
    std::thread opener;
    {
      ReadAhead reader(gated);
      for (std::int64_t k = 0; k < kRequests; ++k) {
        reader.request({a.data() + 50 * k, b.data() + 10 * k, {10 * k, 10 * k + 10}});
      }
      gated.let_through(awaited);
      for (int k = 0; k < awaited; ++k) reader.await();
      gated.wait_for_begun(awaited + 1);
      opener = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the reader is given up by then
        gated.let_through(kRequests);
      });
    }
    opener.join();
    CAPTURE(awaited);
    CHECK(gated.begun() >= awaited + 1);
    CHECK(gated.begun() <= awaited + 2);
  }
}

TEST_CASE("No rows are no reads") {
  World world;
  ExactSource plain(3, 2, 1, ElementType::kFloat32);  // more ranks than rows, with 4
  CountingSource streamed(plain), kept(plain);
  const Sums one = sums_of(streamed, ResidencyChoice::kFile, 1, world);
  MPI_REQUIRE(one == sums_of(kept, ResidencyChoice::kAuto, 0, world));
  MPI_REQUIRE(streamed.empty_reads == 0 && kept.empty_reads == 0);
  std::vector<double> rows = {static_cast<double>(streamed.rows_read), static_cast<double>(kept.rows_read)};
  world.comm.sum(rows.data(), 2);
  MPI_REQUIRE(rows[0] == 6);  // for the sketch, and for the pass
  MPI_REQUIRE(rows[1] == 3);  // kept for the pass
}
