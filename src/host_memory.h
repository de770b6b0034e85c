// How much host memory a rank may use: what the node has free, and what the limits of its job leave. Pure but for the
// files of /proc and cgroups that it reads; called by the backends' plan_limits.
#pragma once

#include <cstdint>
#include <filesystem>

namespace tallsketch {

/// What decides how much memory may be used.
enum class MemoryBound {
  kAsked,         // --memory
  kFree,          // what the machine has free
  kControlGroup,  // the limit of a job or container: Slurm's --mem, memory.max
  kAddressSpace,  // ulimit -v, or ulimit -d
};

struct MemoryShare {
  std::int64_t bytes = 0;  // 0: unknown, the plan then does not judge
  MemoryBound bound = MemoryBound::kFree;
};

/// Of all ranks of the node together: MemAvailable, or what the tightest memory cgroup above this process leaves, its
/// page cache counted as free, whichever is less.
/// root    in whose proc/ and sys/ to read; another in tests
/// Source  kernel documentation: cgroup-v2.rst (memory.max, memory.high, memory.current, memory.stat), cgroup-v1/memory.rst
///         (memory.limit_in_bytes, memory.usage_in_bytes), proc(5) (/proc/PID/cgroup and mountinfo)
MemoryShare free_host_memory(const std::filesystem::path& root = "/");

/// What ulimit -v and -d leave to this process beside what libraries will still map; bytes 0 without such limits.
/// threads  that will be started, each with a stack
MemoryShare free_address_space(int threads);

/// Of one of so many ranks of the node: an equal share of the node's, but no more than the process's own limits leave.
MemoryShare host_memory_share(int ranks_of_node, int threads);

/// Of what is free, what a plan may take: the rest is for what no plan counts, MPI's buffers, stacks, others. 0 stays unknown.
constexpr std::int64_t usable(std::int64_t free_bytes) { return free_bytes / 10 * 9; }

/// "left by the memory limit of this job (cgroup)", and what to change: "more memory for the job (Slurm: --mem)".
const char* describe(MemoryBound bound);
const char* remedy(MemoryBound bound);

}  // namespace tallsketch
