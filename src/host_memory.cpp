#include "src/host_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace tallsketch {

namespace {

namespace fs = std::filesystem;

// What is left where nothing is: 0 says "unknown", and must not come out when a rank's share of it is taken.
constexpr std::int64_t kNothing = 1024;

/// The number behind a key of a file of "key number" lines; 0 where there is none.
std::int64_t number_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    if (words >> name && name == key && words >> value) return value;
  }
  return 0;
}

/// The file's one number; nothing for "max", and where it does not exist.
std::optional<std::int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

/// Files of a memory controller.
struct Controller {
  bool unified;                       // cgroup v2
  std::array<const char*, 2> limits;  // memory.high: what is above is taken away as fast as it is asked for
  const char* usage;
  std::array<const char*, 2> reclaimed;  // of memory.stat: page cache, without what lies in tmpfs
};
constexpr Controller kUnified = {
    true, {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};
constexpr Controller kLegacy = {false,
                                {"memory.limit_in_bytes", "memory.limit_in_bytes"},
                                "memory.usage_in_bytes",
                                {"total_inactive_file", "total_active_file"}};

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// Where the controller's cgroups are mounted, and what of their tree is shown there ("/": all of it).
struct Mount {
  fs::path folder, top;
};

std::optional<Mount> mount_of(const Controller& controller, const fs::path& root) {
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // id, parent, device, top, folder, options, others, "-", type, source, options of the file system
    std::istringstream words(line);
    std::string word, top, folder, type, options;
    words >> word >> word >> word >> top >> folder;
    while (words >> word && word != "-") {
    }
    words >> type >> word >> options;
    const bool wanted = controller.unified ? type == "cgroup2" : type == "cgroup" && has_word(options, "memory");
    if (wanted) return Mount{root / fs::path(folder).relative_path(), top};
  }
  return std::nullopt;
}

/// This process's path below the root of the controller's tree.
std::optional<fs::path> own_group(const Controller& controller, const fs::path& root) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/path" of v2, "4:memory:/path" of v1; a path may hold colons
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool wanted =
        controller.unified ? line.substr(0, first) == "0" && controllers.empty() : has_word(controllers, "memory");
    if (wanted) return fs::path(line.substr(second + 1));
  }
  return std::nullopt;
}

/// What a group leaves; nothing without a limit.
std::optional<std::int64_t> left_in(const fs::path& group, const Controller& controller) {
  std::optional<std::int64_t> limit;
  for (const char* const name : controller.limits) {
    const std::optional<std::int64_t> value = number_in(group / name);
    if (value) limit = std::min(*value, limit.value_or(*value));
  }
  if (!limit) return std::nullopt;
  std::int64_t used = number_in(group / controller.usage).value_or(0);
  for (const char* const name : controller.reclaimed) used -= number_of(group / "memory.stat", name);
  return std::max(kNothing, *limit - std::max<std::int64_t>(0, used));
}

/// The least that this process's group and those above it leave.
std::optional<std::int64_t> left_by_groups(const Controller& controller, const fs::path& root) {
  const std::optional<Mount> mount = mount_of(controller, root);
  const std::optional<fs::path> own = own_group(controller, root);
  if (!mount || !own) return std::nullopt;
  // A container may see a part of the tree, or a path that leads out of its part: then it is judged by what it sees.
  fs::path below = own->lexically_relative(mount->top).lexically_normal();
  if (below.empty() || *below.begin() == "..") below = ".";
  std::optional<std::int64_t> least = left_in(mount->folder, controller);
  fs::path group = mount->folder;
  for (const fs::path& part : below) {
    if (part == ".") continue;
    group /= part;
    const std::optional<std::int64_t> left = left_in(group, controller);
    if (left) least = std::min(*left, least.value_or(*left));
  }
  return least;
}

// OpenBLAS (0.3.21, x86-64) maps a buffer of 128 MiB at a thread's first call, and tries for ever where there is no room
// for it; the rest is for the threads of watchdog and readers, and for what MPI maps later.
constexpr std::int64_t kLibraries = std::int64_t{256} << 20;
constexpr std::int64_t kStack = std::int64_t{8} << 20;

/// limit - used as a share of this process, kept in `share` where it is the least so far.
void bound_by(int resource, std::int64_t used, MemoryShare& share) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  constexpr auto kMost = static_cast<rlim_t>(std::numeric_limits<std::int64_t>::max());
  if (limit.rlim_cur > kMost) return;
  const std::int64_t left = std::max(kNothing, static_cast<std::int64_t>(limit.rlim_cur) - used);
  if (share.bytes == 0 || left < share.bytes) share.bytes = left;
}

}  // namespace

MemoryShare free_host_memory(const fs::path& root) {
  MemoryShare share{number_of(root / "proc/meminfo", "MemAvailable:") * 1024, MemoryBound::kFree};
  for (const Controller& controller : {kUnified, kLegacy}) {
    const std::optional<std::int64_t> left = left_by_groups(controller, root);
    if (left && (share.bytes == 0 || *left < share.bytes)) share = {*left, MemoryBound::kControlGroup};
  }
  return share;
}

MemoryShare free_address_space(int threads) {
  // proc(5), statm: size, resident, shared, text, lib, data + stack; in pages
  std::ifstream statm("/proc/self/statm");
  std::array<std::int64_t, 6> pages{};
  for (std::int64_t& count : pages) statm >> count;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  MemoryShare share{0, MemoryBound::kAddressSpace};
  const std::int64_t later = kLibraries + threads * kStack;
  bound_by(RLIMIT_AS, pages[0] * page + later, share);
  bound_by(RLIMIT_DATA, pages[5] * page + later, share);
  return share;
}

MemoryShare host_memory_share(int ranks_of_node, int threads) {
  MemoryShare share = free_host_memory();
  share.bytes /= ranks_of_node;
  const MemoryShare own = free_address_space(threads);
  return own.bytes > 0 && (share.bytes == 0 || own.bytes < share.bytes) ? own : share;
}

const char* describe(MemoryBound bound) {
  switch (bound) {
    case MemoryBound::kAsked: return "allowed by --memory";
    case MemoryBound::kFree: return "free";
    case MemoryBound::kControlGroup: return "left by the memory limit of this job or container (cgroup)";
    case MemoryBound::kAddressSpace:
      return "left by ulimit -v or -d beside some 260 MiB that libraries and threads will map";
  }
  return "unknown";
}

const char* remedy(MemoryBound bound) {
  switch (bound) {
    case MemoryBound::kAsked: return "more --memory";
    case MemoryBound::kFree: return "more memory for a rank";
    case MemoryBound::kControlGroup: return "more memory for the job (Slurm: --mem)";
    case MemoryBound::kAddressSpace: return "a larger ulimit";
  }
  return "";
}

}  // namespace tallsketch
