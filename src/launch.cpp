#include "src/launch.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

namespace {

int number(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  return text ? static_cast<int>(std::strtol(text->c_str(), nullptr, 10)) : 0;
}

/// Ranks of a node that see as many devices.
struct DeviceGroup {
  std::string host;
  int visible = 0;
  int highest_node_rank = 0;
  std::vector<int> ranks;

  std::string text() const {
    return fmt::format("node {}: rank{} {} see{} {}", host, plural(static_cast<std::int64_t>(ranks.size())),
                       runs_text(ranks), ranks.size() == 1 ? "s" : "",
                       visible == 0 ? std::string("none") : fmt::format("{} GPU{}", visible, plural(visible)));
  }
};

/// In the order of first ranks.
std::vector<DeviceGroup> device_groups(const std::vector<RankView>& ranks) {
  std::vector<DeviceGroup> groups;
  std::map<std::pair<std::string, int>, std::size_t> places;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankView& view = ranks[rank];
    const auto [place, is_new] = places.try_emplace({view.host, view.visible}, groups.size());
    if (is_new) groups.push_back({view.host, view.visible, 0, {}});
    DeviceGroup& group = groups[place->second];
    group.highest_node_rank = std::max(group.highest_node_rank, view.node_rank);
    group.ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

void check_launcher(int mpi_size, const Environment& environment) {
  if (mpi_size != 1) return;
  const int open_mpi = number(environment, "OMPI_COMM_WORLD_SIZE");
  require(
      open_mpi <= 1, ErrorKind::kCommunication,
      fmt::format("mpirun started {} tasks but MPI has 1 rank: the mpirun and the MPI library of this binary differ "
                  "(see tallsketch --version); use the mpirun of that library, or --ignore-launcher",
                  open_mpi));
  // Under sbatch + mpirun a remote rank sees SLURM_STEP_NUM_TASKS = 1 beside its own OMPI_COMM_WORLD_SIZE.
  const int slurm = open_mpi == 0 ? number(environment, "SLURM_STEP_NUM_TASKS") : 0;
  require(
      slurm <= 1, ErrorKind::kCommunication,
      fmt::format("Slurm started {} tasks but MPI has 1 rank; try srun --mpi=pmix (srun --mpi=list shows what there "
                  "is), or --ignore-launcher",
                  slurm));
}

void check_devices(const std::vector<RankView>& ranks, bool may_share) {
  std::vector<DeviceGroup> wrong;
  std::int64_t without = 0, too_many = 0;
  for (const DeviceGroup& group : device_groups(ranks)) {
    const auto members = static_cast<std::int64_t>(group.ranks.size());
    // One device shown to each of several ranks may be another one for each: told apart later, by UUID.
    const bool crowded = group.visible > 1 && group.highest_node_rank >= group.visible && !may_share;
    if (group.visible == 0) without += members;
    if (crowded) too_many += members;
    if (group.visible == 0 || crowded) wrong.push_back(group);
  }
  if (wrong.empty()) return;
  constexpr std::size_t kMost = 8;
  std::string map;
  for (std::size_t i = 0; i < std::min(kMost, wrong.size()); ++i) map += (i == 0 ? "" : "; ") + wrong[i].text();
  if (wrong.size() > kMost) map += fmt::format("; and {} more", wrong.size() - kMost);
  const std::string what =
      without > 0 ? fmt::format("{} of {} ranks see{} no GPU", without, ranks.size(), without == 1 ? "s" : "")
                  : fmt::format("{} ranks share nodes with fewer GPUs than ranks, and each needs its own", too_many);
  const std::string fix =
      without > 0 ? "check nvidia-smi, CUDA_VISIBLE_DEVICES and the job's GPU request (--gpus-per-node), or use "
                    "--backend host on all ranks"
                  : "start fewer ranks a node, or share GPUs with --comm mpi";
  throw Error(ErrorKind::kCommunication, fmt::format("{} ({}); {}", what, map, fix));
}

int pick_device(int node_rank, int visible_devices) { return node_rank % visible_devices; }

std::vector<std::string> shared_devices(const std::vector<RankPlace>& ranks) {
  struct Holders {
    std::string host;
    std::vector<int> ranks;
  };
  std::map<std::string, Holders> by_device;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].uuid.empty()) continue;
    Holders& holders = by_device[ranks[rank].uuid];
    holders.host = ranks[rank].host;
    holders.ranks.push_back(static_cast<int>(rank));
  }
  std::vector<std::string> lines;
  for (const auto& [uuid, holders] : by_device) {
    if (holders.ranks.size() < 2) continue;
    lines.push_back(fmt::format("GPU {} on {} is held by ranks {}", uuid, holders.host, runs_text(holders.ranks)));
  }
  return lines;
}

}  // namespace tallsketch
