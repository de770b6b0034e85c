// What the launcher did, as tables: C-12 and C-24 (tasks against MPI size), C-13 (device of a rank), shared GPUs
// (C-14).
#include <map>
#include <string>
#include <vector>

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
      {"C-24", 1, {{"OMPI_COMM_WORLD_SIZE", "2"}}, "mpirun started 2 tasks but MPI has 1 rank"},
      {"C-24 under Slurm", 1, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}, "mpirun started 2 tasks"},
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

TEST_CASE("The device is the node-local rank, or the only one shown, or refused (C-13)") {
  struct Row {
    int node_rank, visible;
    bool may_share;
    int device;  // -1 = refused
  };
  for (const Row& row : std::vector<Row>{{0, 1, false, 0},
                                         {3, 1, false, 0},
                                         {0, 4, false, 0},
                                         {3, 4, false, 3},
                                         {4, 4, false, -1},
                                         {5, 4, false, -1},
                                         {5, 4, true, 1},
                                         {8, 4, true, 0},
                                         {0, 0, false, -1},
                                         {0, 0, true, -1}}) {
    CAPTURE(row.node_rank, row.visible, row.may_share);
    int device = -1;
    const std::string message =
        communication_error([&] { device = pick_device(row.node_rank, row.visible, row.may_share); });
    CHECK(device == row.device);
    CHECK(message.empty() == (row.device >= 0));
  }
  CHECK_THAT(communication_error([] { pick_device(5, 4, false); }),
             ContainsSubstring("rank 5") && ContainsSubstring("4 GPUs") && ContainsSubstring("--comm mpi"));
  CHECK_THAT(communication_error([] { pick_device(0, 0, false); }), ContainsSubstring("no GPU") &&
                                                                        ContainsSubstring("CUDA_VISIBLE_DEVICES") &&
                                                                        ContainsSubstring("--backend host"));
}

TEST_CASE("A GPU that several ranks hold is named with host and ranks; others are not") {
  CHECK(shared_devices({}).empty());
  CHECK(shared_devices({{"n1", 0, "GPU-a"}, {"n1", 1, "GPU-b"}, {"n2", 2, "GPU-c"}}).empty());
  CHECK(shared_devices({{"n1", 0, ""}, {"n1", 1, ""}}).empty());  // host backend: no device
  const auto lines = shared_devices({{"n1", 0, "GPU-a"}, {"n2", 1, "GPU-b"}, {"n1", 2, "GPU-a"}, {"n2", 3, "GPU-b"}});
  CHECK(lines ==
        std::vector<std::string>{"GPU GPU-a on n1 is held by ranks 0, 2", "GPU GPU-b on n2 is held by ranks 1, 3"});
}

TEST_CASE("The process environment gives what is set and nothing else") {
  CHECK(process_environment()("PATH").has_value());
  CHECK_FALSE(process_environment()("TALLSKETCH_NO_SUCH_VARIABLE").has_value());
}
