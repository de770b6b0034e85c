// What inspect --gpus advises: for every step something, and never what is so already or what the method does not have.
#include <algorithm>
#include <string>
#include <vector>

#include "src/scaling_advice.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr Step kAll[] = {Step::kLock,        Step::kRead,         Step::kUpload,   Step::kCompress,
                         Step::kReduce,      Step::kFactor,       Step::kPassRead, Step::kPassUpload,
                         Step::kPassCompute, Step::kPassMessages, Step::kPassRoot};

/// 8 ranks on 2 nodes; a float32 A of 100 columns, sketched to d = 8n, refined.
struct Case {
  ScalingJob job;
  Prediction now;
  Cluster cluster;
  AskedFor asked;

  Case() {
    job.shape = {1'000'000, 100, 1, ElementType::kFloat32};
    job.d = 800;
    job.passes = 17;
    now.ranks = 8;
    now.nodes = 2;
    cluster.ranks_per_node = 4;
    cluster.file_rate = 10e9;
  }
  std::string advice(Step step) const { return advice_for(step, job, now, cluster, asked); }
  /// Of all steps.
  std::string all() const {
    std::string text;
    for (const Step step : kAll) text += advice(step) + "\n";
    return text;
  }
};

Case gram() {
  Case one;
  one.job.compression = Compression::kGram;
  one.job.reduced_bytes = 8;
  one.job.passes = 4;
  return one;
}

Case sketch_solve() {
  Case one;
  one.job.passes = 0;
  return one;
}

}  // namespace

TEST_CASE("Every step has an advice of its own") {
  std::vector<std::string> said;
  for (const Step step : kAll) {
    const std::string text = Case().advice(step);
    CAPTURE(text);
    CHECK_FALSE(text.empty());
    CHECK_THAT(text, !ContainsSubstring("no option"));
    CHECK(std::count(said.begin(), said.end(), text) == 0);
    said.push_back(text);
  }
  CHECK(said.size() == kSteps);
}

TEST_CASE("The Gram matrix is advised to those who have a sketch, and a sketch to those who have the Gram matrix") {
  CHECK_THAT(Case().all(), ContainsSubstring("--preconditioner gram") && !ContainsSubstring("--preconditioner sketch"));
  const std::string all = gram().all();
  CHECK_THAT(all, ContainsSubstring("--preconditioner sketch") && !ContainsSubstring("--preconditioner gram"));
  // Nothing of what belongs to a sketch.
  CHECK_THAT(all, !ContainsSubstring("--oversample") && !ContainsSubstring("--reduce") && !ContainsSubstring("--tol"));
  CHECK(gram().advice(Step::kFactor) == "no option: fewer columns; more ranks do not help: rank 0 works alone");
  CHECK(gram().advice(Step::kReduce) == "no option: fewer columns; fewer ranks gain little");
}

TEST_CASE("sketch-solve has no passes: no advice on preconditioners") {
  const Case once = sketch_solve();
  for (const Step step : {Step::kLock, Step::kRead, Step::kUpload, Step::kCompress, Step::kReduce, Step::kFactor}) {
    CHECK_THAT(once.advice(step), !ContainsSubstring("--preconditioner") && !ContainsSubstring("more passes"));
  }
  CHECK_THAT(once.advice(Step::kCompress), ContainsSubstring("a smaller --oversample (then a larger residual)"));
}

TEST_CASE("Narrower elements are advised as long as there are some") {
  Case one;
  for (const Step step : {Step::kRead, Step::kUpload, Step::kPassUpload}) {
    one.job.shape.a_type = ElementType::kFloat32;
    CHECK_THAT(one.advice(step), ContainsSubstring("A stored as float16"));
    one.job.shape.a_type = ElementType::kFloat64;
    CHECK_THAT(one.advice(step), ContainsSubstring("A stored as float32 or float16"));
    for (const ElementType half : {ElementType::kFloat16, ElementType::kBfloat16}) {
      one.job.shape.a_type = half;
      CHECK_THAT(one.advice(step), !ContainsSubstring("A stored as"));
    }
  }
}

TEST_CASE("Where A stays: what was asked for is not advised again, and --memory only to those who gave it") {
  Case one;
  CHECK_THAT(one.all(), !ContainsSubstring("--memory") && !ContainsSubstring("--residency auto"));
  one.asked.memory = true;
  for (const Step step : {Step::kLock, Step::kPassRead, Step::kPassUpload}) {
    CHECK_THAT(one.advice(step), ContainsSubstring("more --memory"));
  }
  for (const ResidencyChoice asked : {ResidencyChoice::kHost, ResidencyChoice::kFile}) {
    one.asked.residency = asked;
    for (const Step step : {Step::kLock, Step::kPassRead, Step::kPassUpload}) {
      CHECK_THAT(one.advice(step), ContainsSubstring("--residency auto") && !ContainsSubstring("more ranks") &&
                                       !ContainsSubstring("more GPUs") && !ContainsSubstring("--residency file"));
    }
  }
}

TEST_CASE("Files: direct reads, and more nodes unless all files together are the limit") {
  Case one;
  CHECK_THAT(one.advice(Step::kRead), ContainsSubstring("read directly") && ContainsSubstring("more nodes"));
  one.asked.direct_reads = true;
  CHECK_THAT(one.advice(Step::kRead), !ContainsSubstring("read directly"));
  one.cluster.all_files_rate = 21e9;  // two nodes ask for 20
  CHECK_THAT(one.advice(Step::kRead), ContainsSubstring("more nodes"));
  one.cluster.all_files_rate = 19e9;
  CHECK_THAT(one.advice(Step::kRead), ContainsSubstring("a file system") && !ContainsSubstring("more nodes"));
}

TEST_CASE("More ranks are no advice where some have no rows already") {
  Case one;
  one.now.idle = 3;
  for (const Step step :
       {Step::kLock, Step::kUpload, Step::kCompress, Step::kPassRead, Step::kPassUpload, Step::kPassCompute}) {
    CHECK_THAT(one.advice(step), !ContainsSubstring("more ranks") && !ContainsSubstring("more GPUs"));
  }
}

TEST_CASE("The reduction and the factorisation: what is sent, how it is factored, how large it is") {
  Case one;
  CHECK_THAT(one.advice(Step::kReduce),
             ContainsSubstring("--reduce fp16") && ContainsSubstring("a smaller --oversample"));
  // 8 bytes of (n + r)^2 against 4 of d (n + r): 808 and 3200
  CHECK_THAT(one.advice(Step::kReduce), ContainsSubstring("--preconditioner gram"));
  one.job.reduced_bytes = 2;
  CHECK_THAT(one.advice(Step::kReduce), !ContainsSubstring("--reduce fp16"));
  one.job.reduced_bytes = 8;
  CHECK_THAT(one.advice(Step::kReduce), ContainsSubstring("--precision fp32") && !ContainsSubstring("--reduce fp16"));
  one.job.reduced_bytes = 4;
  one.job.d = 200;
  CHECK_THAT(one.advice(Step::kReduce), !ContainsSubstring("--oversample") && !ContainsSubstring("--preconditioner"));
  CHECK_THAT(one.advice(Step::kFactor), !ContainsSubstring("cholesky") && !ContainsSubstring("--oversample"));
  one.job.by_qr = true;
  CHECK_THAT(one.advice(Step::kFactor), ContainsSubstring("--reduced-solver cholesky"));
}

TEST_CASE("Passes: a larger sketch while it is shorter than A, a network between nodes only") {
  Case one;
  CHECK_THAT(one.advice(Step::kPassCompute), ContainsSubstring("a larger --oversample"));
  one.job.shape.m = 2 * one.job.d;
  CHECK_THAT(one.advice(Step::kPassCompute), !ContainsSubstring("--oversample"));
  CHECK_THAT(one.advice(Step::kPassMessages), ContainsSubstring("network"));
  one.now.nodes = 1;
  CHECK_THAT(one.advice(Step::kPassMessages), !ContainsSubstring("network"));
}
