// From options to predictions: the cluster and the job that the scaling model gets, and which runs efficiencies compare.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/host_memory.h"
#include "src/scaling_predictor.h"
#include "src/synthetic_source.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;
using Start = ScalingPredictor::Start;

namespace {

/// inspect --kind uniform --rows m --cols n --gpus h200
struct Asked {
  InspectOptions options;
  Communicator comm{MPI_COMM_WORLD};

  Asked(std::int64_t m, std::int64_t n) {
    options.synthetic.kind = SyntheticKind::kUniform;
    options.synthetic.m = m;
    options.synthetic.n = n;
    options.cluster.gpus = "h200";
  }
  /// f  takes the predictor
  template <typename F>
  void predicted(F f) const {
    const SyntheticSource source(options.synthetic);
    ScalingPredictor predictor(options, source, comm);
    f(predictor);
  }
};

}  // namespace

TEST_CASE(
    "Options become a cluster: rates and latencies in SI units, nodes of eight ranks or as many as are asked for") {
  ClusterOptions options;
  options.net_gb_per_s = 25;
  options.net_latency_us = 3;
  options.file_gb_per_s = 7;
  options.all_files_gb_per_s = 90;
  const GpuModel& gpu = gpu_model("h200");
  const Cluster cluster = cluster_of(options, &gpu, 1000);
  CHECK(cluster.ranks_per_node == 8);
  CHECK(cluster.network.rate == 25e9);
  CHECK(cluster.network.latency == Catch::Approx(3e-6));
  CHECK(cluster.file_rate == 7e9);
  CHECK(cluster.all_files_rate == 90e9);
  CHECK(cluster.device_link.rate == 250e9);
  CHECK(cluster.reduce_start > 0);
  const Cluster host = cluster_of(options, nullptr, 1000);
  CHECK(host.reduce_start == 0);
  CHECK(host.device_link.rate == host.host_link.rate);
  options.nodes = 300;
  CHECK(cluster_of(options, &gpu, 1000).ranks_per_node == 4);
}

TEST_CASE("A planned job becomes the model's: what is reduced, how it is factored, how many passes") {
  MethodOptions method;
  method.tolerance = 1e-12;
  SketchJob job;
  job.shape = {1'000'000, 100, 2, ElementType::kFloat32};
  job.spec.d = 800;
  job.spec.batch_rows = 512;
  job.plan.residency = Residency::kHost;
  ScalingJob scaling = scaling_job(method, job);
  CHECK(scaling.shape.r == 2);
  CHECK(scaling.d == 800);
  CHECK(scaling.batch_rows == 512);
  CHECK(scaling.residency == Residency::kHost);
  CHECK(scaling.passes == 0);
  CHECK(scaling.reduced_bytes == 4);
  CHECK_FALSE(scaling.by_qr);
  job.refine = true;
  CHECK(scaling_job(method, job).passes > 4);
  job.reduce = ReducePrecision::kFp16;
  CHECK(scaling_job(method, job).reduced_bytes == 2);
  method.reduced_solver = ReducedSolverChoice::kQr;
  CHECK(scaling_job(method, job).by_qr);
  method.reduced_solver = ReducedSolverChoice::kAuto;
  job.spec.precision = SketchPrecision::kFp64;
  CHECK(scaling_job(method, job).by_qr);
  CHECK(scaling_job(method, job).reduced_bytes == 8);
  job.compression = Compression::kGram;
  CHECK_FALSE(scaling_job(method, job).by_qr);
  CHECK(scaling_job(method, job).reduced_bytes == 8);
  CHECK(scaling_job(method, job).passes == kGramPasses);
}

TEST_CASE("The base of strong scaling is the fewest ranks that have A in the same place") {
  Asked(10'000'000'000, 1024).predicted([](ScalingPredictor& predictor) {
    const PredictedRun& many = predictor.at(512);
    CHECK(many.job.plan.residency == Residency::kDevice);
    const PredictedRun& base = predictor.base_of(many);
    CHECK(base.job.plan.residency == Residency::kDevice);
    CHECK(predictor.at(base.prediction.ranks - 1).job.plan.residency == Residency::kFile);
    CHECK(predictor.base_of(predictor.at(base.prediction.ranks - 1)).prediction.ranks == 1);
    CHECK(predictor.strong(base) == Catch::Approx(1));
    CHECK(predictor.weak(many) <= 1 + 1e-12);
  });
}

TEST_CASE("Takeovers of ranks are those of the predictions, with files or without") {
  Asked asked(10'000'000'000, 256);
  asked.options.method.preconditioner = PreconditionerChoice::kSketch;
  asked.options.cluster.file_gb_per_s = 1e6;
  asked.predicted([](ScalingPredictor& predictor) {
    const std::vector<Takeover> list = predictor.takeovers_of_ranks(70, Start::kFiles);
    REQUIRE(list.size() > 1);
    for (std::size_t i = 1; i < list.size(); ++i) {
      const int ranks = static_cast<int>(list[i].from);
      CHECK(predictor.at(ranks).prediction.bottleneck() == list[i].step);
      CHECK(predictor.at(ranks - 1).prediction.bottleneck() == list[i - 1].step);
    }
  });
  asked.options.cluster.file_gb_per_s = 10;
  asked.predicted([](ScalingPredictor& predictor) {
    CHECK(predictor.takeovers_of_ranks(100, Start::kFiles).front().step == Step::kRead);
    CHECK(predictor.takeovers_of_ranks(100, Start::kInstantFiles).front().step == Step::kUpload);
    const Step there = predictor.takeovers_of_ranks(100, Start::kInPlace).front().step;
    CHECK((there != Step::kRead && there != Step::kUpload));
  });
}

TEST_CASE("Files that are read faster than a Gram matrix is made decide for a sketch, which solve must be asked for") {
  const auto route = [](double file_gb_per_s, double all_files_gb_per_s, int ranks) {
    Asked asked(10'000'000, 8192);
    asked.options.cluster.file_gb_per_s = file_gb_per_s;
    asked.options.cluster.all_files_gb_per_s = all_files_gb_per_s;
    std::pair<Compression, bool> found;
    asked.predicted([&](ScalingPredictor& predictor) {
      const PredictedRun& run = predictor.at(ranks);
      CHECK(run.job.plan.residency == Residency::kDevice);
      found = {run.scaling.compression, predictor.is_own_choice(run)};
    });
    return found;
  };
  CHECK(route(80, 0, 8) == std::pair(Compression::kGram, true));  // 10 GB/s a rank, as solve supposes
  CHECK(route(400, 0, 8) == std::pair(Compression::kSketch, false));
  CHECK(route(400, 80, 8) == std::pair(Compression::kGram, true));
}

TEST_CASE("Takeovers of columns end where the sketch would be as tall as A, or at 16384 columns") {
  const auto most = [](std::int64_t m, Compression compression) {
    PredictedRun run;
    run.scaling.shape = {m, 100, 1, ElementType::kFloat32};
    run.scaling.d = 810;
    run.scaling.compression = compression;
    return ScalingPredictor::most_columns(run);
  };
  CHECK(most(8100, Compression::kSketch) == 1000);
  CHECK(most(8099, Compression::kSketch) == 999);
  CHECK(most(8100, Compression::kGram) == 8100);
  CHECK(most(10'000'000'000'000, Compression::kSketch) == 16384);
  CHECK(most(10'000'000'000'000, Compression::kGram) == 16384);
  CHECK(most(8, Compression::kSketch) == 0);
  Asked asked(40'000, 64);
  asked.options.method.preconditioner = PreconditionerChoice::kSketch;
  asked.options.sketch.oversample = 8;
  asked.predicted([](ScalingPredictor& predictor) {
    const std::vector<Takeover> list = predictor.takeovers_of_columns(predictor.at(4));
    REQUIRE_FALSE(list.empty());
    CHECK(list.front().from == ScalingPredictor::kFewestColumns);
    CHECK(list.back().from <= 5000);
  });
  asked.options.synthetic.m = 100;
  asked.predicted([](ScalingPredictor& predictor) { CHECK(predictor.takeovers_of_columns(predictor.at(1)).empty()); });
}

TEST_CASE("Numbers of ranks that have no room are told, with the reason; the others are predicted") {
  Asked asked(10'000'000'000, 1024);
  asked.options.run.residency = ResidencyChoice::kDevice;
  asked.predicted([](ScalingPredictor& predictor) {
    CHECK_THAT(predictor.misfit(275),
               Catch::Matchers::StartsWith("this needs ") && ContainsSubstring("139 GiB may be used, of what is free"));
    CHECK(predictor.misfit(276).empty());
    CHECK(predictor.base_of(predictor.at(300)).prediction.ranks == 276);
    CHECK_THROWS_AS(predictor.at(275), Error);
  });
}

TEST_CASE("The fewest ranks that keep A in memory: none where A stays in files") {
  Asked asked(10'000'000'000, 1024);
  asked.predicted([](ScalingPredictor& predictor) {
    CHECK(predictor.first_kept(1) == 276);
    CHECK(predictor.first_kept(275) == 276);
    CHECK(predictor.first_kept(276) == 276);
    CHECK(predictor.first_kept(300) == 300);
  });
  asked.options.run.residency = ResidencyChoice::kFile;
  asked.predicted([](ScalingPredictor& predictor) { CHECK(predictor.first_kept(1) == 0); });
}

TEST_CASE("More memory than the GPU has is refused, with the most that can be given") {
  Asked asked(1'000'000, 64);
  asked.options.cluster.gpus = "a100";
  constexpr std::uint64_t kMost = std::uint64_t{81920 - 1214}
                                  << 20;  // of nvidia-smi, less what CUDA and the backend leave
  asked.options.run.memory_bytes = kMost;
  asked.predicted([](ScalingPredictor& predictor) { CHECK(predictor.misfit(1).empty()); });
  asked.options.run.memory_bytes = kMost + 1;
  const auto [code, message] = error_of([&] { asked.predicted([](ScalingPredictor&) {}); });
  CHECK(code == 2);
  CHECK_THAT(message, ContainsSubstring("--memory 84626374657") && ContainsSubstring("a100") &&
                          ContainsSubstring("--memory 80706MiB"));
}

TEST_CASE("The host backend: threads as asked for, and a node's memory for the ranks that share it") {
  Asked asked(100'000'000, 64);
  asked.options.cluster.gpus = "host";
  asked.options.method.preconditioner = PreconditionerChoice::kSketch;
  const auto compute = [&](int threads) {
    asked.options.cluster.threads = threads;
    double seconds = 0;
    asked.predicted([&](ScalingPredictor& predictor) {
      CHECK(predictor.threads() == threads);
      CHECK_THAT(predictor.machine_text(), ContainsSubstring(fmt::format(" {} thread", threads)));
      seconds = predictor.at(8).prediction.of(Step::kPassCompute);
    });
    return seconds;
  };
  CHECK(compute(1) / compute(3) == Catch::Approx(3));
  CHECK(compute(64) == compute(4));  // memory feeds four cores
  // 2 ranks on one node, or on two: what is free here is shared by both, or each has it.
  const auto fits = [&](std::int64_t rows, int nodes) {
    Asked two(rows, 1024);
    two.options.cluster.gpus = "host";
    two.options.cluster.nodes = nodes;
    two.options.ranks = {2};
    Residency residency = Residency::kFile;
    two.predicted([&](ScalingPredictor& predictor) { residency = predictor.at(2).job.plan.residency; });
    return residency == Residency::kHost;
  };
  const std::int64_t rows = free_host_memory().bytes / 4096 * 7 / 10 * 2;  // seven tenths of it for each
  CHECK(fits(rows, 2));
  CHECK_FALSE(fits(rows, 1));
}

TEST_CASE("A GPU without figures is an error that lists those with") {
  Asked asked(1'000'000, 64);
  asked.options.cluster.gpus = "b200";
  CHECK_THROWS_AS(asked.predicted([](ScalingPredictor&) {}), Error);
}
