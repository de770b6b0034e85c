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
    if (is_new) groups.push_back({view.host, view.visible, {}});
    DeviceGroup& group = groups[place->second];
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
  // The first that is there is the launcher that started this process; others may be those that it runs in: under sbatch and
  // mpirun a remote rank sees SLURM_STEP_NUM_TASKS = 1 beside its own OMPI_COMM_WORLD_SIZE.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (!environment(name)) continue;
    const int tasks = number(environment, name);
    require(
        tasks <= 1, ErrorKind::kCommunication,
        fmt::format("mpirun started {} tasks ({}) but MPI has 1 rank: the mpirun and the MPI library of this binary "
                    "differ (see tallsketch --version); use the mpirun of that library, or --ignore-launcher",
                    tasks, name));
    return;
  }
  const int slurm = number(environment, "SLURM_STEP_NUM_TASKS");
  require(
      slurm <= 1, ErrorKind::kCommunication,
      fmt::format("Slurm started {} tasks but MPI has 1 rank; try srun --mpi=pmix (srun --mpi=list shows what there "
                  "is), or --ignore-launcher",
                  slurm));
}

std::string device_map(const std::vector<RankView>& ranks) {
  constexpr std::size_t kMost = 8;
  const auto groups = device_groups(ranks);
  std::string map;
  for (std::size_t i = 0; i < std::min(kMost, groups.size()); ++i) map += (i == 0 ? "" : "; ") + groups[i].text();
  if (groups.size() > kMost) map += fmt::format("; and {} more", groups.size() - kMost);
  return map;
}

void check_devices(const std::vector<RankView>& ranks) {
  const auto without =
      std::count_if(ranks.begin(), ranks.end(), [](const RankView& rank) { return rank.visible == 0; });
  require(
      without == 0, ErrorKind::kCommunication,
      fmt::format("{} of {} ranks see{} no GPU ({}); check nvidia-smi, CUDA_VISIBLE_DEVICES and the job's GPU request "
                  "(--gpus-per-node), or use --backend host on all ranks",
                  without, ranks.size(), without == 1 ? "s" : "", device_map(ranks)));
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
