#include "src/host_threads.h"

#include <algorithm>
#include <cstdlib>

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include "src/communicator.h"

namespace tallsketch {

int team_size() { return std::clamp(omp_get_max_threads(), 1, std::max(1, omp_get_num_procs())); }

int host_threads(const Communicator& comm) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return team_size();
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int all = omp_get_num_procs();
  const int mine = sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : all;
  // Bound to a part of the machine, the launcher has shared the cores out; bound to all of it, the ranks share them.
  const auto online = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return std::max(1, mine < online ? mine : mine / comm.node_size());
}

}  // namespace tallsketch
