// What the launcher did, as tables: C-12 and C-24 (tasks against MPI size), C-13 (device of a rank), shared GPUs
// (C-14).
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/error.h"
#include "src/launch.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

Environment environment_of(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

/// Message of the communication error that f throws; "" if it throws none.
template <class F>
std::string communication_error(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kCommunication);
    CHECK(e.exit_code() == 8);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A launcher that started more tasks than MPI sees is refused, naming both and the remedy") {
  struct Row {
    const char* name;
    int mpi_size;
    std::map<std::string, std::string> variables;
    std::string expected;  // "" = accepted
  };
  const std::map<std::string, std::string> wrong_pmi = {
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  const std::vector<Row> rows = {
      {"no launcher", 1, {}, ""},
      {"C-12", 1, wrong_pmi, "Slurm started 4 tasks but MPI has 1 rank; try srun --mpi=pmix"},
      {"srun with the right PMI", 4, wrong_pmi, ""},
      {"srun of one task", 1, {{"SLURM_STEP_NUM_TASKS", "1"}}, ""},
      {"inside an allocation of 4 tasks, without srun", 1, {{"SLURM_NTASKS", "4"}}, ""},
      {"sbatch + mpirun, remote rank", 4, {{"SLURM_STEP_NUM_TASKS", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, ""},
      {"sbatch -n 4 + mpirun -n 1", 1, {{"SLURM_STEP_NUM_TASKS", "4"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, ""},
      {"mpirun of one", 1, {{"OMPI_COMM_WORLD_SIZE", "1"}}, ""},
      {"C-24", 1, {{"OMPI_COMM_WORLD_SIZE", "2"}}, "mpirun started 2 tasks (OMPI_COMM_WORLD_SIZE) but MPI has 1 rank"},
      {"C-24 under Slurm", 1, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}, "mpirun started 2 tasks"},
      {"another MPI's mpiexec", 1, {{"PMI_SIZE", "4"}}, "mpirun started 4 tasks (PMI_SIZE)"},
      {"srun of four around an mpirun of one", 1, {{"PMI_SIZE", "4"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, ""},
      {"mpirun of two", 2, {{"OMPI_COMM_WORLD_SIZE", "2"}}, ""},
      {"variables that are no numbers", 1, {{"OMPI_COMM_WORLD_SIZE", ""}, {"SLURM_STEP_NUM_TASKS", "x"}}, ""},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const std::string message =
        communication_error([&] { check_launcher(row.mpi_size, environment_of(row.variables)); });
    if (row.expected.empty()) {
      CHECK(message.empty());
    } else {
      CHECK_THAT(message, ContainsSubstring(row.expected) && ContainsSubstring("--ignore-launcher"));
    }
  }
}

TEST_CASE("The device is the node-local rank modulo what is shown (C-13)") {
  struct Row {
    int node_rank, visible, device;
  };
  for (const Row& row : std::vector<Row>{{0, 1, 0}, {3, 1, 0}, {0, 4, 0}, {3, 4, 3}, {5, 4, 1}, {8, 4, 0}}) {
    CAPTURE(row.node_rank, row.visible);
    CHECK(pick_device(row.node_rank, row.visible) == row.device);
  }
}

TEST_CASE("Ranks that see no GPU are refused with the map of nodes, ranks and GPUs (C-13)") {
  const auto refusal = [](const std::vector<RankView>& ranks) {
    return communication_error([&] { check_devices(ranks); });
  };
  CHECK(refusal({{"a", 0, 1}}).empty());
  CHECK(refusal({{"a", 0, 2}, {"a", 1, 2}, {"a", 2, 2}}).empty());  // UUIDs tell whether they share
  CHECK_THAT(refusal({{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 0}}),
             ContainsSubstring("1 of 3 ranks sees no GPU") &&
                 ContainsSubstring("(node a: ranks 0, 1 see 2 GPUs; node b: rank 2 sees none)") &&
                 ContainsSubstring("CUDA_VISIBLE_DEVICES") && ContainsSubstring("--backend host"));
  CHECK_THAT(refusal({{"a", 0, 0}, {"a", 1, 0}}), ContainsSubstring("2 of 2 ranks see no GPU"));
}

TEST_CASE("A map of many nodes names the first ones") {
  CHECK(device_map({{"a", 0, 2}, {"b", 0, 1}, {"a", 1, 2}, {"a", 2, 1}}) ==
        "node a: ranks 0, 2 see 2 GPUs; node b: rank 1 sees 1 GPU; node a: rank 3 sees 1 GPU");
  std::vector<RankView> ranks;
  for (int node = 0; node < 1000; ++node) ranks.push_back({fmt::format("n{}", node), 0, 0});
  CHECK_THAT(device_map(ranks),
             ContainsSubstring("n7:") && ContainsSubstring("and 992 more") && !ContainsSubstring("n8:"));
}

TEST_CASE("A GPU that several ranks hold is named with host and ranks; others are not") {
  const auto place = [](const std::string& host, const std::string& uuid) {
    return RankPlace{host, "GPU", 0, uuid, "", ""};
  };
  CHECK(shared_devices({}).empty());
  CHECK(shared_devices({place("n1", "GPU-a"), place("n1", "GPU-b"), place("n2", "GPU-c")}).empty());
  CHECK(shared_devices({place("n1", ""), place("n1", "")}).empty());  // host backend: no device
  const auto lines =
      shared_devices({place("n1", "GPU-a"), place("n2", "GPU-b"), place("n1", "GPU-a"), place("n2", "GPU-b")});
  CHECK(lines ==
        std::vector<std::string>{"GPU GPU-a on n1 is held by ranks 0, 2", "GPU GPU-b on n2 is held by ranks 1, 3"});
}

TEST_CASE("The process environment gives what is set and nothing else") {
  CHECK(process_environment()("PATH").has_value());
  CHECK_FALSE(process_environment()("TALLSKETCH_NO_SUCH_VARIABLE").has_value());
}
