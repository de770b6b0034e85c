#include "src/launch.h"

#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "src/error.h"

namespace tallsketch {

namespace {

int number(const Environment& environment, const std::string& name) {
  const auto text = environment(name);
  return text ? static_cast<int>(std::strtol(text->c_str(), nullptr, 10)) : 0;
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

int pick_device(int node_rank, int visible_devices, bool may_share) {
  require(
      visible_devices > 0, ErrorKind::kCommunication,
      fmt::format("node-local rank {} sees no GPU; check nvidia-smi, CUDA_VISIBLE_DEVICES and the job's GPU request "
                  "(--gpus-per-node), or use --backend host",
                  node_rank));
  if (visible_devices == 1) return 0;  // one device shown to each task, or shared: told apart by UUID
  require(node_rank < visible_devices || may_share, ErrorKind::kCommunication,
          fmt::format("node-local rank {} of this node, but only {} GPUs are visible: one rank a GPU is needed; start "
                      "fewer ranks a node, or share GPUs with --comm mpi",
                      node_rank, visible_devices));
  return node_rank % visible_devices;
}

std::vector<std::string> shared_devices(const std::vector<RankDevice>& ranks) {
  std::map<std::string, std::vector<RankDevice>> by_device;
  for (const RankDevice& rank : ranks) {
    if (!rank.uuid.empty()) by_device[rank.uuid].push_back(rank);
  }
  std::vector<std::string> lines;
  for (const auto& [uuid, holders] : by_device) {
    if (holders.size() < 2) continue;
    std::string list;
    for (const RankDevice& holder : holders) list += fmt::format("{}{}", list.empty() ? "" : ", ", holder.rank);
    lines.push_back(fmt::format("GPU {} on {} is held by ranks {}", uuid, holders.front().host, list));
  }
  return lines;
}

}  // namespace tallsketch
