#include "src/scaling_advice.h"

#include <vector>

#include <fmt/format.h>

namespace tallsketch {

namespace {

/// The advice on one job, piece by piece.
class Advice {
 public:
  Advice(const ScalingJob& job, const Prediction& now, const Cluster& cluster, const AskedFor& asked)
      : job_(job), now_(now), cluster_(cluster), asked_(asked) {}

  void add(bool helps, const char* piece) {
    if (helps) pieces_.emplace_back(piece);
  }
  void more_ranks() { add(now_.idle == 0, "more ranks"); }
  void narrower_elements() {
    const std::int64_t size = element_size(job_.shape.a_type);
    add(size == 4, "A stored as float16");
    add(size == 8, "A stored as float32 or float16");
  }
  /// So that A stays where passes reach it faster.
  /// kept  by more ranks
  void better_place(const char* kept) {
    const bool automatic = asked_.residency == ResidencyChoice::kAuto;
    add(!automatic, "--residency auto, which keeps A in memory where it fits");
    add(automatic && now_.idle == 0, kept);
    add(automatic && asked_.memory, "more --memory");
  }
  void smaller_sketch() {
    add(!gram() && job_.d > 2 * job_.shape.n, job_.passes > 0 ? "a smaller --oversample (then more passes)"
                                                              : "a smaller --oversample (then a larger residual)");
  }
  void fewer_passes() {
    add(!gram(), "--preconditioner gram, which needs fewer passes");
    add(!gram() && 2 * job_.d < job_.shape.m, "a larger --oversample, which needs fewer passes");
  }
  bool gram() const { return job_.compression == Compression::kGram; }
  bool refines() const { return job_.passes > 0; }
  /// Whether all files together are slower than those of the nodes.
  bool files_shared() const {
    return cluster_.all_files_rate > 0 && rank_file_rate(cluster_, now_.ranks) * now_.ranks >= cluster_.all_files_rate;
  }

  void add_for(Step step);
  /// remark  that holds whatever the pieces are; may be empty
  std::string text(const std::string& remark) const {
    const std::string list = pieces_.empty() ? "no option: fewer columns" : fmt::format("{}", fmt::join(pieces_, "; "));
    return remark.empty() ? list : list + "; " + remark;
  }

 private:
  const ScalingJob& job_;
  const Prediction& now_;
  const Cluster& cluster_;
  const AskedFor& asked_;
  std::vector<std::string> pieces_;
};

void Advice::add_for(Step step) {
  switch (step) {
    case Step::kLock:
      better_place("more ranks, so that A stays in GPU memory");
      add(asked_.residency == ResidencyChoice::kAuto, "--residency file, where few passes are made");
      break;
    case Step::kRead:
      add(true, "files striped over more servers");
      add(!asked_.direct_reads, "contiguous files, which are read directly");
      narrower_elements();
      add(files_shared(), "a file system that gives all nodes more together");
      add(!files_shared() && (now_.idle == 0 || now_.ranks > now_.nodes), "more nodes");
      break;
    case Step::kUpload:
      add(now_.idle == 0, "more GPUs, each with a PCIe link of its own");
      narrower_elements();
      break;
    case Step::kCompress:
      more_ranks();
      add(gram() && refines(), "--preconditioner sketch (then more passes)");
      smaller_sketch();
      break;
    case Step::kReduce:
      add(!gram() && job_.reduced_bytes == 8, "--precision fp32");
      add(!gram() && job_.reduced_bytes == 4, "--reduce fp16");
      smaller_sketch();
      add(!gram() && refines() && 8 * (job_.shape.n + job_.shape.r) < job_.reduced_bytes * job_.d,
          "--preconditioner gram, which sends less");
      break;
    case Step::kFactor:
      add(job_.by_qr, "--reduced-solver cholesky");
      smaller_sketch();
      break;
    case Step::kPassRead:
      better_place("more ranks, so that A stays in memory");
      add(true, "--method sketch-solve, which reads A once");
      fewer_passes();
      break;
    case Step::kPassUpload:
      better_place("more GPUs, so that A stays in their memory");
      narrower_elements();
      fewer_passes();
      break;
    case Step::kPassCompute:
      more_ranks();
      fewer_passes();
      break;
    case Step::kPassMessages:
      add(true, "fewer ranks");
      add(now_.nodes > 1, "a network of lower latency");
      fewer_passes();
      break;
    case Step::kPassRoot:
      fewer_passes();
      add(!gram(), "a larger --tol");
      break;
  }
}

const char* remark_on(Step step) {
  switch (step) {
    case Step::kReduce: return "fewer ranks gain little";
    case Step::kFactor:
    case Step::kPassRoot: return "more ranks do not help: rank 0 works alone";
    default: return "";
  }
}

}  // namespace

std::string advice_for(Step step, const ScalingJob& job, const Prediction& now, const Cluster& cluster,
                       const AskedFor& asked) {
  Advice advice(job, now, cluster, asked);
  advice.add_for(step);
  return advice.text(remark_on(step));
}

}  // namespace tallsketch
