#include "src/study_memory.h"

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/host_memory.h"
#include "src/host_threads.h"

namespace tallsketch {

void require_study_memory(double bytes, std::int64_t m, std::int64_t n, const Communicator& comm) {
  const MemoryShare share = host_memory_share(comm.node_size(), host_threads(comm));
  require(share.bytes == 0 || bytes <= static_cast<double>(share.bytes), ErrorKind::kMemory,
          fmt::format("--rows {} --cols {} need {:.3g} GB of host memory on every rank, {:.3g} GB a rank are {}; use "
                      "fewer, fewer ranks a node or {}",
                      m, n, 1e-9 * bytes, 1e-9 * static_cast<double>(share.bytes), describe(share.bound),
                      remedy(share.bound)));
}

}  // namespace tallsketch
