#include "src/scaling_model.h"

#include <algorithm>
#include <cmath>

#include "kernels/rounding.h"

namespace tallsketch {

namespace {

// What src/refine_pass sends for a pass: the order and x to all ranks; then, beside the sum of the gradients, five words: two
// agreements that nobody failed, two comparisons of counts, and the residuals.
constexpr double kWord = 8;
constexpr double kSmallReductions = 5;

double log2_up(std::int64_t ranks) {
  double steps = 0;
  for (std::int64_t reached = 1; reached < ranks; reached *= 2) steps += 1;
  return steps;
}

/// Inside the nodes, then between them.
struct Hierarchy {
  std::int64_t in_node, nodes;
  double all_reduce(double bytes, const Link& inside, const Link& between) const {
    return all_reduce_seconds(in_node, bytes, inside) + all_reduce_seconds(nodes, bytes, between);
  }
  double broadcast(double bytes, const Link& inside, const Link& between) const {
    return broadcast_seconds(in_node, bytes, inside) + broadcast_seconds(nodes, bytes, between);
  }
};

/// Books steps, all of them, or those done at a time, of which only the longest counts.
class Booking {
 public:
  explicit Booking(Prediction& prediction) : prediction_(prediction) {}
  void add(Step step, double seconds) {
    prediction_.seconds[static_cast<std::size_t>(step)] = seconds;
    prediction_.counts[static_cast<std::size_t>(step)] = seconds > 0;
  }
  struct Part {
    Step step;
    double seconds;
  };
  void add_stream(const std::vector<Part>& parts, bool beside) {
    const auto longest = std::max_element(parts.begin(), parts.end(),
                                          [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
    for (auto part = parts.begin(); part != parts.end(); ++part) {
      add(part->step, part->seconds);
      if (beside && part != longest) prediction_.counts[static_cast<std::size_t>(part->step)] = false;
    }
  }

 private:
  Prediction& prediction_;
};

}  // namespace

const char* to_word(Step step) {
  switch (step) {
    case Step::kLock: return "page-lock host memory";
    case Step::kRead: return "read A";
    case Step::kUpload: return "upload A";
    case Step::kCompress: return "sketch or Gram matrix";
    case Step::kReduce: return "all-reduce";
    case Step::kFactor: return "factor on rank 0";
    case Step::kPassRead: return "passes: read A";
    case Step::kPassUpload: return "passes: upload A";
    case Step::kPassCompute: return "passes: compute";
    case Step::kPassMessages: return "passes: messages";
    case Step::kPassRoot: return "passes: rank 0";
  }
  return "unknown";
}

double Prediction::total() const {
  double sum = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) sum += counts[i] ? seconds[i] : 0;
  return sum;
}

Step Prediction::bottleneck() const {
  std::size_t longest = static_cast<std::size_t>(Step::kCompress);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (counts[i] && (!counts[longest] || seconds[i] > seconds[longest])) longest = i;
  }
  return static_cast<Step>(longest);
}

double all_reduce_seconds(std::int64_t ranks, double bytes, const Link& link) {
  const auto p = static_cast<double>(ranks);
  return 2 * log2_up(ranks) * link.latency + 2 * (p - 1) / p * bytes / link.rate;
}

double broadcast_seconds(std::int64_t ranks, double bytes, const Link& link) {
  return log2_up(ranks) * (link.latency + bytes / link.rate);
}

double rank_file_rate(const Cluster& cluster, int ranks) {
  const double own = cluster.file_rate / std::min(ranks, cluster.ranks_per_node);
  return cluster.all_files_rate > 0 ? std::min(own, cluster.all_files_rate / ranks) : own;
}

Prediction predict(const ScalingJob& job, const Cluster& cluster, int ranks) {
  Prediction result;
  result.ranks = ranks;
  const Hierarchy all{std::min<std::int64_t>(ranks, cluster.ranks_per_node), divide_up(ranks, cluster.ranks_per_node)};
  result.nodes = static_cast<int>(all.nodes);
  const std::int64_t batches = divide_up(job.shape.m, job.batch_rows);
  result.idle = std::max<std::int64_t>(0, ranks - batches);
  result.rows = std::min(job.shape.m, divide_up(batches, ranks) * job.batch_rows);

  StepCosts steps = cluster.steps(job.shape, result.rows);
  steps.file =
      static_cast<double>(result.rows) * static_cast<double>(job.shape.a_row_bytes()) / rank_file_rate(cluster, ranks);
  const bool gram = job.compression == Compression::kGram, uploads = steps.upload > 0;

  Booking booking(result);
  const bool in_files = job.residency == Residency::kFile, on_host = job.residency == Residency::kHost;
  const bool reads = in_files || !job.read;
  if (on_host && uploads && reads) booking.add(Step::kLock, steps.lock);
  booking.add_stream({{Step::kRead, reads ? steps.file : 0},
                      {Step::kUpload, reads || on_host ? steps.upload : 0},
                      {Step::kCompress, gram ? steps.gram : steps.sketch(job.d)}},
                     steps.reads_beside);

  const auto n = static_cast<double>(job.shape.n), r = static_cast<double>(job.shape.r);
  const double sketch_bytes = static_cast<double>(job.sketch_rows()) * (n + r) * static_cast<double>(job.reduced_bytes);
  if (ranks > 1) {
    booking.add(Step::kReduce,
                cluster.reduce_start + all.all_reduce(sketch_bytes, cluster.device_link, cluster.network));
  }
  booking.add(Step::kFactor, steps.reduced_rest + (gram        ? steps.gram_factor
                                                   : job.by_qr ? steps.sketch_qr(job.d)
                                                               : steps.sketch_factor(job.d)));

  booking.add_stream({{Step::kPassRead, in_files ? job.passes * steps.file : 0},
                      {Step::kPassUpload, in_files || on_host ? job.passes * steps.upload : 0},
                      {Step::kPassCompute, job.passes * steps.pass}},
                     steps.reads_beside);
  const double x_bytes = n * r * kWord;
  const Link &inside = cluster.host_link, &between = cluster.network;
  booking.add(Step::kPassMessages,
              job.passes * (all.broadcast(kWord, inside, between) + all.broadcast(x_bytes, inside, between) +
                            all.all_reduce(x_bytes, inside, between) +
                            kSmallReductions * all.all_reduce(kWord, inside, between)));
  booking.add(Step::kPassRoot, job.passes * steps.between_passes);
  return result;
}

double strong_efficiency(const Prediction& fewest, const Prediction& now) {
  return fewest.total() * fewest.ranks / (now.total() * now.ranks);
}

int weak_base(const Cluster& cluster, int ranks) { return ranks > cluster.ranks_per_node ? cluster.ranks_per_node : 1; }

double weak_efficiency(const ScalingJob& job, const Cluster& cluster, int ranks) {
  const Prediction now = predict(job, cluster, ranks);
  ScalingJob small = job;
  const int base = weak_base(cluster, ranks);
  small.shape.m = now.rows * base;
  return predict(small, cluster, base).total() / now.total();
}

std::vector<Takeover> takeovers(std::int64_t first, std::int64_t last,
                                const std::function<Step(std::int64_t x)>& bottleneck_at) {
  std::vector<Takeover> list = {{first, bottleneck_at(first)}};
  for (std::int64_t known = first; known < last;) {
    const Step before = list.back().step;
    std::int64_t next = std::min(last, 2 * known);
    if (bottleneck_at(next) == before) {
      known = next;
      continue;
    }
    while (next - known > 1) {
      const std::int64_t middle = known + (next - known) / 2;
      (bottleneck_at(middle) == before ? known : next) = middle;
    }
    list.push_back({next, bottleneck_at(next)});
    known = next;
  }
  return list;
}

}  // namespace tallsketch
