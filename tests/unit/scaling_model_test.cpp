// The scaling model: sums worked out by hand, limits for few and many ranks, and sizes beyond 2^31 rows and 10^4 ranks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/error.h"
#include "src/gpu_model.h"
#include "src/gpu_planner.h"
#include "src/gpu_solve_costs.h"
#include "src/scaling_model.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int kRanks[] = {1, 2, 3, 7, 8, 9, 16, 64, 100, 1000, 1024, 9999, 10000};

/// A machine of round figures: a rank uploads 1 GB/s, computes with 2 GB/s; rank 0 takes 3 s to factor, 0.5 between passes.
StepCosts round_steps(const ProblemShape& shape, std::int64_t rows) {
  const double bytes = static_cast<double>(rows) * static_cast<double>(shape.a_row_bytes());
  StepCosts steps;
  steps.upload = bytes / 1e9;
  steps.lock = bytes / 4e9;
  steps.gram = steps.pass = bytes / 2e9;
  steps.sketch = [=](std::int64_t d) { return static_cast<double>(d) * bytes / 100e9; };
  steps.gram_factor = 3;
  steps.sketch_factor = [](std::int64_t) { return 4.0; };
  steps.sketch_qr = [](std::int64_t) { return 8.0; };
  steps.between_passes = 0.5;
  return steps;
}

Cluster round_cluster() {
  Cluster cluster;
  cluster.ranks_per_node = 4;
  cluster.device_link = {1, 1e3};
  cluster.host_link = {0.25, 1e9};
  cluster.network = {2, 500};
  cluster.reduce_start = 10;
  cluster.file_rate = 8e9;
  cluster.steps = round_steps;
  return cluster;
}

/// 80 GB of 10 columns of float32.
ScalingJob round_job() {
  ScalingJob job;
  job.shape = {2'000'000'000, 10, 1, ElementType::kFloat32};
  job.d = 50;
  job.batch_rows = 500;
  job.passes = 4;
  return job;
}

Cluster h200s() {
  Cluster cluster;
  cluster.device_link = gpu_model("h200").link;
  cluster.host_link = kNodeMessages;
  cluster.network = {5e-6, 50e9};
  cluster.reduce_start = gpu_model("h200").reduce_start;
  cluster.file_rate = 10e9;
  cluster.steps = [](const ProblemShape& shape, std::int64_t rows) {
    return gpu_step_costs(gpu_model("h200"), shape, rows);
  };
  return cluster;
}

ScalingJob large_job() {
  ScalingJob job;
  job.shape = {10'000'000'000'000, 1024, 1, ElementType::kFloat32};
  job.d = 16384;
  job.batch_rows = 4096;
  job.passes = 17;
  return job;
}

}  // namespace

TEST_CASE("An all-reduce takes 2 ceil(log2 p) latencies and 2 (p - 1) / p of the bytes, a broadcast log2 p messages") {
  const Link link{3, 10};
  CHECK(all_reduce_seconds(1, 1000, link) == 0);
  CHECK(all_reduce_seconds(2, 1000, link) == Catch::Approx(2 * 3 + 100));
  CHECK(all_reduce_seconds(4, 1000, link) == Catch::Approx(4 * 3 + 150));
  CHECK(all_reduce_seconds(5, 1000, link) == Catch::Approx(6 * 3 + 160));
  CHECK(all_reduce_seconds(10'000, 1000, link) == Catch::Approx(28 * 3 + 199.98));
  CHECK(broadcast_seconds(1, 1000, link) == 0);
  CHECK(broadcast_seconds(2, 1000, link) == Catch::Approx(103));
  CHECK(broadcast_seconds(9, 1000, link) == Catch::Approx(4 * 103));
}

TEST_CASE("One rank, worked out by hand: 80 GB") {
  const Prediction one = predict(round_job(), round_cluster(), 1);
  CHECK(one.rows == 2'000'000'000);
  CHECK(one.nodes == 1);
  CHECK(one.of(Step::kRead) == Catch::Approx(10));
  CHECK(one.of(Step::kUpload) == Catch::Approx(80));
  CHECK(one.of(Step::kCompress) == Catch::Approx(40));
  CHECK(one.of(Step::kReduce) == 0);
  CHECK(one.of(Step::kFactor) == 4);
  CHECK(one.of(Step::kPassCompute) == Catch::Approx(4 * 40));
  CHECK(one.of(Step::kPassMessages) == 0);
  CHECK(one.of(Step::kPassRoot) == Catch::Approx(2));
  // Read, upload and sketch go on at a time.
  CHECK_FALSE(one.is_counted(Step::kRead));
  CHECK_FALSE(one.is_counted(Step::kCompress));
  CHECK(one.total() == Catch::Approx(80 + 4 + 160 + 2));
  CHECK(one.bottleneck() == Step::kPassCompute);
}

TEST_CASE("Eight ranks on two nodes, worked out by hand: the reduction, the messages of passes, shared files") {
  const Prediction eight = predict(round_job(), round_cluster(), 8);
  CHECK(eight.nodes == 2);
  CHECK(eight.rows == 250'000'000);
  CHECK(eight.of(Step::kRead) == Catch::Approx(5));  // 10 GB at a quarter of a node's 8 GB/s
  // 50 x 11 x 4 = 2200 bytes: 1.5 of them at 1000 a second and 4 latencies, 1 at 500 a second and 2 latencies of 2.
  CHECK(eight.of(Step::kReduce) == Catch::Approx(10 + (4 * 1 + 3.3) + (2 * 2 + 4.4)));
  // Latencies: 2 broadcasts (2 x 0.25 + 2) and 6 all-reduces (4 x 0.25 + 4); bytes between the nodes, at 500 a second: 8 and 80
  // broadcast, 80 and 5 x 8 reduced, once each.
  CHECK(eight.of(Step::kPassMessages) == Catch::Approx(4 * (2 * 2.5 + 6 * 5 + (8 + 80 + 80 + 40) / 500.0)));
  CHECK(eight.of(Step::kFactor) == 4);
  CHECK(eight.total() == Catch::Approx(10 + 25.7 + 4 + 4 * 5 + 4 * (35 + 0.416) + 2));
  CHECK(eight.bottleneck() == Step::kPassMessages);
}

TEST_CASE("Where rows stay decides what a pass takes") {
  ScalingJob job = round_job();
  const Cluster cluster = round_cluster();
  job.residency = Residency::kHost;
  const Prediction pinned = predict(job, cluster, 1);
  CHECK(pinned.of(Step::kLock) == Catch::Approx(20));
  CHECK(pinned.of(Step::kPassUpload) == Catch::Approx(4 * 80));
  CHECK(pinned.of(Step::kPassRead) == 0);
  CHECK(pinned.total() == Catch::Approx(20 + 80 + 4 + 320 + 2));
  CHECK(pinned.bottleneck() == Step::kPassUpload);
  job.read = true;  // nothing to lock or read any more, but every pass uploads
  CHECK(predict(job, cluster, 1).total() == Catch::Approx(80 + 4 + 320 + 2));
  job.residency = Residency::kDevice;
  CHECK(predict(job, cluster, 1).total() == Catch::Approx(40 + 4 + 160 + 2));
  job.residency = Residency::kFile;
  const Prediction eight = predict(
      job,
      [&] {
        Cluster slow = cluster;
        slow.file_rate = 1e9;
        return slow;
      }(),
      8);
  CHECK(eight.of(Step::kLock) == 0);
  CHECK(eight.of(Step::kPassRead) == Catch::Approx(4 * 40));
  CHECK(eight.bottleneck() == Step::kPassRead);
  // All files together give no more than asked: 80 GB at 1 GB/s.
  Cluster shared = cluster;
  shared.all_files_rate = 1e9;
  CHECK(predict(job, shared, 8).of(Step::kRead) == Catch::Approx(80));
  CHECK(predict(job, shared, 1).of(Step::kRead) == Catch::Approx(80));
}

TEST_CASE("Files are shared by the ranks of a node, and by all where they have a limit together") {
  Cluster cluster = round_cluster();
  CHECK(rank_file_rate(cluster, 1) == 8e9);
  CHECK(rank_file_rate(cluster, 3) == Catch::Approx(8e9 / 3));
  CHECK(rank_file_rate(cluster, 100) == 2e9);
  cluster.all_files_rate = 20e9;
  CHECK(rank_file_rate(cluster, 8) == 2e9);
  CHECK(rank_file_rate(cluster, 100) == Catch::Approx(0.2e9));
}

TEST_CASE("A machine whose reader takes the time of the others adds what a GPU hides") {
  Cluster cluster = round_cluster();
  cluster.steps = [](const ProblemShape& shape, std::int64_t rows) {
    StepCosts steps = round_steps(shape, rows);
    steps.reads_beside = false;
    steps.upload = 0;
    return steps;
  };
  ScalingJob job = round_job();
  job.residency = Residency::kFile;
  CHECK(predict(job, cluster, 1).total() == Catch::Approx(10 + 40 + 4 + 4 * (10 + 40) + 2));
  job.residency = Residency::kHost;
  CHECK(predict(job, cluster, 1).total() == Catch::Approx(10 + 40 + 4 + 4 * 40 + 2));  // nothing to page-lock
}

TEST_CASE("The route decides what is reduced and how it is factored") {
  ScalingJob job = round_job();
  const Cluster cluster = round_cluster();
  job.by_qr = true;
  CHECK(predict(job, cluster, 1).of(Step::kFactor) == 8);
  Cluster slower = cluster;
  slower.steps = [](const ProblemShape& shape, std::int64_t rows) {
    StepCosts steps = round_steps(shape, rows);
    steps.reduced_rest = 0.75;
    return steps;
  };
  CHECK(predict(job, slower, 1).of(Step::kFactor) == 8.75);
  job.reduced_bytes = 2;
  CHECK(predict(job, cluster, 4).of(Step::kReduce) == Catch::Approx(10 + 4 + 1.65));
  job.compression = Compression::kGram;
  job.reduced_bytes = 8;
  CHECK(predict(job, cluster, 1).of(Step::kFactor) == 3);
  CHECK(predict(job, cluster, 4).of(Step::kReduce) == Catch::Approx(10 + 4 + 1.5 * 11 * 11 * 8 / 1e3));
}

TEST_CASE("Faster links and files never make a solve slower, and more ranks never a rank's own work") {
  for (const ScalingJob& job : {round_job(), large_job()}) {
    for (const Residency residency : {Residency::kDevice, Residency::kHost, Residency::kFile}) {
      ScalingJob placed = job;
      placed.residency = residency;
      for (const Cluster& cluster : {round_cluster(), h200s()}) {
        double read = std::numeric_limits<double>::infinity(), compute = read;
        for (const int ranks : kRanks) {
          CAPTURE(ranks, to_word(residency));
          const Prediction now = predict(placed, cluster, ranks);
          CHECK(std::isfinite(now.total()));
          CHECK(now.of(Step::kFactor) == predict(placed, cluster, 1).of(Step::kFactor));  // Amdahl
          CHECK(now.of(Step::kPassRoot) == predict(placed, cluster, 1).of(Step::kPassRoot));
          CHECK(now.of(Step::kCompress) <= read);
          CHECK(now.of(Step::kPassCompute) <= compute);
          read = now.of(Step::kCompress);
          compute = now.of(Step::kPassCompute);
          for (int which = 0; which < 5; ++which) {
            Cluster faster = cluster;
            if (which == 0) faster.device_link.rate *= 2;
            if (which == 1) faster.network.rate *= 2;
            if (which == 2) faster.network.latency /= 2;
            if (which == 3) faster.file_rate *= 2;
            if (which == 4) faster.host_link.latency /= 2;
            CHECK(predict(placed, faster, ranks).total() <= now.total());
          }
        }
        Cluster faster = cluster;
        faster.network.rate *= 2;
        CHECK(predict(placed, faster, 64).total() < predict(placed, cluster, 64).total());
        CHECK(predict(placed, faster, 1).total() == predict(placed, cluster, 1).total());
      }
    }
  }
}

TEST_CASE("Efficiencies are 1 for the base and at most 1 for more ranks") {
  const Cluster cluster = h200s();
  const ScalingJob job = large_job();
  const Prediction base = predict(job, cluster, 8);
  CHECK(strong_efficiency(base, base) == Catch::Approx(1));
  double last = 1;
  for (int ranks = 8; ranks <= 16384; ranks *= 2) {
    const double strong = strong_efficiency(base, predict(job, cluster, ranks));
    CHECK(strong <= 1 + 1e-12);
    CHECK(strong <= last + 1e-12);
    last = strong;
  }
  for (const int ranks : kRanks) {
    CAPTURE(ranks);
    CHECK(weak_efficiency(job, cluster, ranks) <= 1 + 1e-12);
    if (ranks > 8) CHECK(weak_efficiency(job, cluster, ranks) > 0.95);
    if (ranks == 8) CHECK(weak_efficiency(job, cluster, ranks) < 0.2);  // eight share a node's files
  }
  CHECK(weak_efficiency(job, cluster, 1) == Catch::Approx(1));
  CHECK(weak_base(cluster, 8) == 1);
  CHECK(weak_base(cluster, 9) == 8);
}

TEST_CASE("10^13 rows on 1 to 10^4 ranks: rows and seconds stay whole, and idle ranks are counted") {
  const ScalingJob job = large_job();
  for (const int ranks : kRanks) {
    const Prediction now = predict(job, h200s(), ranks);
    CHECK(now.rows % job.batch_rows == (ranks == 1 ? job.shape.m % job.batch_rows : 0));
    CHECK(now.rows * ranks >= job.shape.m);
    CHECK(now.rows * ranks < job.shape.m + std::int64_t{ranks} * job.batch_rows);
    CHECK(now.idle == 0);
    for (const double seconds : now.seconds) CHECK(seconds >= 0);
  }
  CHECK(predict(job, h200s(), 1).of(Step::kRead) == Catch::Approx(4.096e6));
  ScalingJob small = job;
  small.shape.m = 4096 * 10 - 1;
  CHECK(predict(small, h200s(), 10).idle == 0);
  CHECK(predict(small, h200s(), 11).idle == 1);
  CHECK(predict(small, h200s(), 10'000).idle == 9990);
  CHECK(predict(small, h200s(), 10'000).rows == 4096);
}

TEST_CASE("Takeovers are the first x at which another step is the longest") {
  const auto by_x = [](std::int64_t x) {
    return x < 7 ? Step::kPassCompute : x < 1000 ? Step::kReduce : Step::kPassMessages;
  };
  const std::vector<Takeover> list = takeovers(2, 10'000, by_x);
  REQUIRE(list.size() == 3);
  CHECK((list[0].from == 2 && list[0].step == Step::kPassCompute));
  CHECK((list[1].from == 7 && list[1].step == Step::kReduce));
  CHECK((list[2].from == 1000 && list[2].step == Step::kPassMessages));
  CHECK(takeovers(2, 6, by_x).size() == 1);
  CHECK(takeovers(2, 7, by_x).size() == 2);
  CHECK(takeovers(5, 5, by_x).size() == 1);
  CHECK(takeovers(1, 3, [](std::int64_t x) { return x == 1 ? Step::kRead : Step::kFactor; })[1].from == 2);
}

TEST_CASE("Every step has a name of its own") {
  std::vector<std::string> said;
  for (int i = 0; i < kSteps; ++i) {
    const std::string text = to_word(static_cast<Step>(i));
    CHECK_FALSE(text.empty());
    CHECK(std::count(said.begin(), said.end(), text) == 0);
    said.push_back(text);
  }
}

TEST_CASE("GPUs are known by name, scaled from the H200 by their datasheets, and an unknown one lists them") {
  const GpuModel &h200 = gpu_model("h200"), &h100 = gpu_model("h100"), &a100 = gpu_model("a100");
  CHECK(h100.read_rate / h200.read_rate == Catch::Approx(3.35 / 4.8));
  CHECK(h100.gram_rate == h200.gram_rate);
  CHECK(a100.upload_rate == h200.upload_rate / 2);
  CHECK(a100.link.rate == Catch::Approx(h200.link.rate * 300 / 450));
  CHECK(a100.link.latency == h200.link.latency);
  CHECK(a100.read_rate < h100.read_rate);
  for (const GpuModel* model : {&h100, &a100}) CHECK(model->memory == Catch::Approx(80.0 * (1 << 30)).epsilon(0.005));
  CHECK_FALSE(a100.bulk_copies);
  CHECK_THAT(h200.source, ContainsSubstring("measured"));
  for (const GpuModel* model : {&h100, &a100}) CHECK_THAT(model->source, ContainsSubstring("not measured"));
  // Without TMA: four floors a pass, and 1.6 for each of four nonzeros in a sketch of 40 GB.
  const ProblemShape shape{10'000'000, 1000, 1, ElementType::kFloat32};
  const StepCosts old = gpu_step_costs(a100, shape, shape.m);
  CHECK(old.pass == Catch::Approx(4 * 40e9 / a100.read_rate).epsilon(0.01));
  CHECK(old.sketch(2048) == Catch::Approx(6.4 * 40e9 / a100.read_rate));
  try {
    gpu_model("b200");
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kUsage);
    CHECK_THAT(e.what(), ContainsSubstring("'b200'") && ContainsSubstring("h200, h100, a100"));
  }
}

TEST_CASE("The plan for a GPU that is not here: rows stay while they fit, rank 0 needs the same at any ranks") {
  GpuPlanner planner(gpu_model("h200"), ResidencyChoice::kAuto, 0);
  SketchJob job;
  job.shape = {10'000'000'000, 1024, 1, ElementType::kFloat32};
  job.encoding = plain_encoding(ElementType::kFloat32);
  job.spec.d = 16384;
  job.spec.batch_rows = 4096;
  job.refine = true;
  const PlanLimits limits = planner.plan_limits(job);
  CHECK(limits.kept_row_bytes == 1024 * 4 + 8);
  const auto plan_for = [&](int ranks) { return make_plan(job.shape, job.spec, ranks, limits); };
  CHECK(plan_for(275).residency == Residency::kFile);  // 149.2 GB a rank, which the GPU has, but no room for the sketch
  CHECK(plan_for(280).residency == Residency::kDevice);
  const Plan few = plan_for(280), many = plan_for(10'000);
  CHECK(few.factor_bytes == many.factor_bytes);
  CHECK(few.sketch_bytes == many.sketch_bytes);
  CHECK(few.chunk_bytes == many.chunk_bytes);
  CHECK(many.slab_bytes == std::int64_t{245} * 4096 * 4104);  // 2 441 407 batches, 10 000 ranks
  // What was measured: 37.6 GiB for 9 765 632 rows and the Gram matrix.
  job.shape.m = 9'765'632;
  job.compression = Compression::kGram;
  CHECK(static_cast<double>(
            make_plan(job.shape, job.spec, 1, planner.plan_limits(job), Compression::kGram).total_bytes()) ==
        Catch::Approx(37.6 * (1 << 30)).epsilon(0.01));
  // With little device memory rows stay page-locked: 40 GB of the 96 GiB that are its share.
  GpuPlanner small(gpu_model("h200"), ResidencyChoice::kAuto, std::uint64_t{1} << 30);
  CHECK(make_plan(job.shape, job.spec, 1, small.plan_limits(job)).residency == Residency::kHost);
}

TEST_CASE("One read keeps no rows on a GPU, unless the scales of a 16-bit sketch come from all of them first") {
  GpuPlanner planner(gpu_model("h200"), ResidencyChoice::kAuto, 0);
  SketchJob job;
  job.shape = {1'000'000, 1024, 1, ElementType::kFloat32};
  const auto kept_row_bytes = [&] { return planner.plan_limits(job).kept_row_bytes; };
  CHECK(kept_row_bytes() == 0);
  job.spec.precision = SketchPrecision::kFp16;
  CHECK(kept_row_bytes() == 1024 * 4 + 8);
  job.scaling = ScalingChoice::kNone;
  CHECK(kept_row_bytes() == 0);
  job.scaling = ScalingChoice::kAuto;
  job.spec.precision = SketchPrecision::kBf16;
  CHECK(kept_row_bytes() == 0);
  job.spec.precision = SketchPrecision::kFp16;
  job.compression = Compression::kGram;
  CHECK(kept_row_bytes() == 0);
}
