#include "drivers/inspect_scaling.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernels/rounding.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/scaling_predictor.h"
#include "src/text.h"

namespace tallsketch {

namespace {

using Json = nlohmann::ordered_json;

/// "1.23 s"
std::string seconds_text(double seconds) { return fmt::format("{:.3g} s", seconds); }
std::string percent_text(double share) {
  if (share < 1e-4) return "<0.01 %";
  return share < 0.01 ? fmt::format("{:.1g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

const char* place_text(const PredictedRun& run) {
  switch (run.scaling.residency) {
    case Residency::kDevice: return "GPU memory";
    case Residency::kHost: return "host memory";
    case Residency::kFile: return run.scaling.passes > 0 ? "files, again for every pass" : "files, read once";
  }
  return "unknown";
}

std::string assumptions_text(const InspectOptions& options) {
  const ClusterOptions& asked = options.cluster;
  std::string text = fmt::format("a node: network {:g} GB/s and {:g} us, files {:g} GB/s", asked.net_gb_per_s,
                                 asked.net_latency_us, asked.file_gb_per_s);
  if (asked.all_files_gb_per_s > 0) text += fmt::format(", all files together {:g} GB/s", asked.all_files_gb_per_s);
  return text;
}

void print_steps(const Prediction& prediction, Progress& out) {
  out.line(fmt::format("{:<24} {:>12} {:>9}", "step", "seconds", "share"));
  for (int i = 0; i < kSteps; ++i) {
    const auto step = static_cast<Step>(i);
    if (prediction.of(step) <= 0) continue;
    const std::string share =
        prediction.is_counted(step) ? percent_text(prediction.of(step) / prediction.total()) : "beside";
    out.line(fmt::format("{:<24} {:>12.3g} {:>9}", to_word(step), prediction.of(step), share));
  }
  out.line(fmt::format("{:<24} {:>12.3g} {:>9}", "total", prediction.total(), "100 %"));
}

/// "passes: compute up to 511, then all-reduce up to 4095, then factor on rank 0"
std::string takeover_text(const std::vector<Takeover>& list) {
  std::string text = to_word(list.front().step);
  for (std::size_t i = 1; i < list.size(); ++i) {
    text += fmt::format(" up to {}, then {}", list[i].from - 1, to_word(list[i].step));
  }
  return text;
}

std::string advice_on(Step step, const ScalingPredictor& predictor, const PredictedRun& run) {
  return advice_for(step, run.scaling, run.prediction, predictor.cluster(), predictor.asked());
}

/// first  ranks from which on; told: whose advice was given
void print_takeovers(ScalingPredictor& predictor, int first, Step told, Progress& out) {
  using Start = ScalingPredictor::Start;
  std::set<Step> advised = {told};
  std::vector<std::string> advice;
  const auto print = [&](const std::string& what, int from, Start start) {
    const std::vector<Takeover> list = predictor.takeovers_of_ranks(from, start);
    out.line(what + takeover_text(list));
    for (const Takeover& takeover : list) {
      if (!advised.insert(takeover.step).second) continue;
      const PredictedRun& run = predictor.at(static_cast<int>(takeover.from));
      advice.push_back(
          fmt::format("  {}: shorter by: {}", to_word(takeover.step), advice_on(takeover.step, predictor, run)));
    }
  };
  print(fmt::format("longest step, from {} rank{} on: ", first, plural(first)), first, Start::kFiles);
  print("  if files took no time: ", first, Start::kInstantFiles);
  // A that stays in files has no place where it could be already.
  const int kept = predictor.first_kept(first);
  const std::string since = kept == first ? "" : fmt::format(", from {} ranks on", kept);
  if (kept > 0) print(fmt::format("  if A were in its place already{}: ", since), kept, Start::kInPlace);
  for (const std::string& line : advice) out.line(line);
}

void print_run(ScalingPredictor& predictor, const PredictedRun& run, Progress& out) {
  const Prediction& prediction = run.prediction;
  const Plan& plan = run.job.plan;
  out.line(describe_job(run.job));
  out.line(fmt::format("run:     {} rank{} on {} node{}, up to {} rows a rank, A in {}, {:.0f} pass{} of refinement",
                       prediction.ranks, plural(prediction.ranks), prediction.nodes, plural(prediction.nodes),
                       prediction.rows, place_text(run), run.scaling.passes, run.scaling.passes == 1 ? "" : "es"));
  if (prediction.idle > 0) {
    out.warning(fmt::format("{} of {} ranks have no rows: A has {} batches of {} rows", prediction.idle,
                            prediction.ranks, prediction.ranks - prediction.idle, run.scaling.batch_rows));
  }
  print_steps(prediction, out);
  std::string memory = "memory of a rank: " + bytes_text(plan.total_bytes());
  if (plan.host_bytes > 0) memory += fmt::format(", and {} of host memory", bytes_text(plan.host_bytes));
  out.line(memory + fmt::format("; {} of it, for sketch and factorisation, whatever the number of ranks",
                                bytes_text(plan.sketch_bytes + plan.factor_bytes)));

  const PredictedRun& base = predictor.base_of(run);
  out.line(fmt::format("strong scaling: efficiency {} against {} rank{}, the fewest with A in {} ({})",
                       percent_text(predictor.strong(run)), base.prediction.ranks, plural(base.prediction.ranks),
                       place_text(run), seconds_text(base.prediction.total())));
  const int weak_ranks = weak_base(predictor.cluster(), prediction.ranks);
  out.line(fmt::format("weak scaling: efficiency {} against {} rank{} with as many rows a rank",
                       percent_text(predictor.weak(run)), weak_ranks, plural(weak_ranks)));
  const Step bottleneck = prediction.bottleneck();
  out.line(fmt::format("bottleneck: {}, {} of the time; shorter by: {}", to_word(bottleneck),
                       percent_text(prediction.of(bottleneck) / prediction.total()),
                       advice_on(bottleneck, predictor, run)));
  print_takeovers(predictor, base.prediction.ranks, bottleneck, out);
  const std::vector<Takeover> by_columns = predictor.takeovers_of_columns(run);
  if (by_columns.empty()) return;
  out.line(fmt::format("longest step, with these rows, ranks and d / n, A in {}, of {} to {} columns: {}",
                       run.scaling.residency == Residency::kFile ? place_text(run) : "its place already",
                       ScalingPredictor::kFewestColumns, ScalingPredictor::most_columns(run),
                       takeover_text(by_columns)));
}

/// Where solve has to be asked for the preconditioner of a run. Collective.
void print_other_choice(const ScalingPredictor& predictor, const PredictedRun& run, Progress& out) {
  if (predictor.is_own_choice(run)) return;
  out.line(
      fmt::format("note: on {} rank{} solve, which does not know these files, takes another preconditioner: give it "
                  "--preconditioner {}",
                  run.prediction.ranks, plural(run.prediction.ranks),
                  run.scaling.compression == Compression::kGram ? "gram" : "sketch"));
}

constexpr const char* kRow = "{:>7} {:>6} {:>14} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {}";

/// "this needs 18.7 TiB on a rank, but 139 GiB may be used": the reason that a plan gives, without its parts and cures.
std::string brief(std::string reason) {
  const std::size_t parts = reason.find(" ("), end = reason.find("),");
  if (parts < end && end != std::string::npos) reason.erase(parts, end + 1 - parts);
  return reason.substr(0, reason.find(';'));
}

/// misfits  by number of ranks: why a solve does not fit on so many
using Misfits = std::map<int, std::string>;

void print_scan(ScalingPredictor& predictor, const std::vector<int>& ranks, const Misfits& misfits, Progress& out) {
  out.line(fmt::format(kRow, "ranks", "nodes", "rows a rank", "A in", "first s", "reduce s", "factor s", "passes s",
                       "total s", "speed-up", "efficiency", " bottleneck"));
  const auto number = [](double seconds) { return fmt::format("{:.3g}", seconds); };
  for (const int count : ranks) {
    if (misfits.count(count) > 0) {
      out.line(fmt::format("{:>7} {:>6} does not fit: {}", count, divide_up(count, predictor.cluster().ranks_per_node),
                           brief(misfits.at(count))));
      continue;
    }
    const PredictedRun& run = predictor.at(count);
    const Prediction& p = run.prediction;
    double passes = 0, first = 0;
    for (int i = 0; i < kSteps; ++i) {
      const auto step = static_cast<Step>(i);
      if (!p.is_counted(step)) continue;
      if (step >= Step::kPassRead) passes += p.of(step);
      if (step < Step::kReduce) first += p.of(step);
    }
    const PredictedRun& base = predictor.base_of(run);
    out.line(fmt::format(kRow, p.ranks, p.nodes, p.rows, to_word(run.scaling.residency), number(first),
                         number(p.of(Step::kReduce)), number(p.of(Step::kFactor)), number(passes), number(p.total()),
                         number(base.prediction.total() / p.total()),
                         fmt::format("{} of {}", percent_text(predictor.strong(run)), base.prediction.ranks),
                         std::string(" ") + to_word(p.bottleneck())));
    if (p.idle > 0) out.warning(fmt::format("{} of {} ranks have no rows", p.idle, p.ranks));
  }
  out.line(
      "speed-up and efficiency: against the fewest ranks that have A in the same place (\"of\"); first: lock, read, "
      "upload and sketch or Gram matrix, those done at a time counted once");
  if (!misfits.empty()) {
    const auto& [most, why] = *misfits.rbegin();
    out.line(fmt::format("on {} rank{} {}", most, plural(most), why));
  }
}

std::string misfit_json(const ScalingPredictor& predictor, const InspectOptions& options, int ranks,
                        const std::string& reason) {
  const Json line = {{"inspect", "scaling"}, {"gpus", options.cluster.gpus},
                     {"ranks", ranks},       {"nodes", divide_up(ranks, predictor.cluster().ranks_per_node)},
                     {"fits", false},        {"reason", reason}};
  return line.dump() + "\n";
}

/// Collective, as the efficiencies are.
std::string json_text(ScalingPredictor& predictor, const InspectOptions& options, const PredictedRun& run) {
  const Prediction& p = run.prediction;
  const bool gram = run.scaling.compression == Compression::kGram;
  Json steps = Json::object(), counted = Json::array();
  for (int i = 0; i < kSteps; ++i) {
    const auto step = static_cast<Step>(i);
    steps[to_word(step)] = p.of(step);
    if (p.is_counted(step)) counted.push_back(to_word(step));
  }
  const ClusterOptions& asked = options.cluster;
  const Json line = {{"inspect", "scaling"},
                     {"gpus", asked.gpus},
                     {"ranks", p.ranks},
                     {"nodes", p.nodes},
                     {"fits", true},
                     {"threads", predictor.threads() > 0 ? Json(predictor.threads()) : Json(nullptr)},
                     {"net_gb_per_s", asked.net_gb_per_s},
                     {"net_latency_us", asked.net_latency_us},
                     {"file_gb_per_s", asked.file_gb_per_s},
                     {"all_files_gb_per_s", asked.all_files_gb_per_s},
                     {"m", run.scaling.shape.m},
                     {"n", run.scaling.shape.n},
                     {"r", run.scaling.shape.r},
                     {"dtype", to_word(run.scaling.shape.a_type)},
                     {"preconditioner", gram ? "gram" : "sketch"},
                     {"d", gram ? Json(nullptr) : Json(run.scaling.d)},
                     {"passes", run.scaling.passes},
                     {"residency", to_word(run.scaling.residency)},
                     {"rows", p.rows},
                     {"idle_ranks", p.idle},
                     {"seconds", steps},
                     {"counted", counted},
                     {"total_seconds", p.total()},
                     {"memory_bytes", run.job.plan.total_bytes()},
                     {"host_bytes", run.job.plan.host_bytes},
                     {"strong_efficiency", predictor.strong(run)},
                     {"strong_base", predictor.base_of(run).prediction.ranks},
                     {"weak_efficiency", predictor.weak(run)},
                     {"weak_base", weak_base(predictor.cluster(), p.ranks)},
                     {"bottleneck", to_word(p.bottleneck())}};
  return line.dump() + "\n";
}

/// Ranks fill nodes; where they do not come out even, fewer nodes than were asked for have some.
void print_filled_nodes(const InspectOptions& options, const Cluster& cluster, Progress& out) {
  const int largest = *std::max_element(options.ranks.begin(), options.ranks.end());
  const std::int64_t filled = divide_up(largest, cluster.ranks_per_node);
  if (options.cluster.nodes == 0 || filled == options.cluster.nodes) return;
  out.line(fmt::format("note: {} ranks on --nodes {} are {} a node, which fill {} nodes: predicted for {}", largest,
                       options.cluster.nodes, cluster.ranks_per_node, filled, filled));
}

/// Errors  kMemory
void require_one_fits(const std::vector<int>& ranks, const Misfits& misfits) {
  if (misfits.size() < ranks.size()) return;
  const auto& [most, why] = *misfits.rbegin();
  throw Error(ErrorKind::kMemory, ranks.size() == 1 ? fmt::format("--ranks {} does not fit: {}", most, why)
                                                    : fmt::format("none of --ranks {} fits; on {} rank{} {}",
                                                                  fmt::join(ranks, ","), most, plural(most), why));
}

}  // namespace

void check_cluster(const InspectOptions& options, const Communicator& comm) {
  comm.together([&] {
    require(options.ranks.size() == 1 || !options.cluster.gpus.empty(), ErrorKind::kUsage,
            "a list of --ranks needs --gpus: without, one plan is shown, of the machine that is here");
    const ClusterOptions& asked = options.cluster;
    const int nodes = asked.nodes, largest = largest_ranks(options, comm);
    require(
        asked.gpus.empty() || std::count(options.ranks.begin(), options.ranks.end(), 0) == 0, ErrorKind::kUsage,
        fmt::format("--gpus {} predicts for numbers of ranks that need not run here: name them, each 1 or more, such "
                    "as --ranks 8 or --ranks 1,2,4,8",
                    asked.gpus));
    require(asked.threads == 0 || asked.gpus == "host", ErrorKind::kUsage,
            fmt::format("--threads {} belongs to --gpus host; a rank of --gpus {} is a GPU: leave it out",
                        asked.threads, asked.gpus));
    require(
        nodes <= largest, ErrorKind::kUsage,
        fmt::format("--nodes {} cannot all have a rank of --ranks {}; use --nodes 1 to {}", nodes, largest, largest));
  });
}

void predict_scaling(const InspectOptions& options, const RowSource& source, const Communicator& comm, Progress& out) {
  ScalingPredictor predictor(options, source, comm);
  const std::vector<int>& ranks = options.ranks;
  Misfits misfits;
  for (const int count : ranks) {
    if (const std::string why = predictor.misfit(count); !why.empty()) misfits[count] = why;
  }
  comm.together([&] { require_one_fits(ranks, misfits); });
  out.line(fmt::format("predicted for: {}; {}", predictor.machine_text(), assumptions_text(options)));
  print_filled_nodes(options, predictor.cluster(), out);
  if (options.json) {
    for (const int count : ranks) {
      const auto misfit = misfits.find(count);
      const std::string line = misfit == misfits.end() ? json_text(predictor, options, predictor.at(count))
                                                       : misfit_json(predictor, options, count, misfit->second);
      if (comm.is_root()) std::fputs(line.c_str(), stdout);
    }
    return;
  }
  if (ranks.size() == 1) {
    print_run(predictor, predictor.at(ranks.front()), out);
  } else {
    print_scan(predictor, ranks, misfits, out);
  }
  for (const int count : ranks) {
    if (misfits.count(count) == 0) print_other_choice(predictor, predictor.at(count), out);
  }
  if (source.info().files.empty()) out.line("note: rows that are made count as if they were read from files");
  out.line("note: start-up of MPI, CUDA and NCCL, and what ranks wait for uneven ones, are not predicted");
}

}  // namespace tallsketch
