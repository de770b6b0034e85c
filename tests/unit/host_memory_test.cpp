// How much host memory a rank may plan with: MemAvailable, memory cgroups of both kinds and their parents, ulimit -v.
#include "src/host_memory.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <sys/resource.h>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A root folder with a proc/ and a sys/ of its own.
class FakeRoot {
 public:
  FakeRoot() {
    write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    8192000 kB\nBuffers: 2 kB\n");
  }
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.at(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// cgroup v2 as a host sees it, this process in /slurm/job_7/step_0.
  void mount_unified() {
    write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    write("proc/self/mountinfo",
          "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
          "31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate\n");
    write("sys/fs/cgroup/cgroup.procs", "");
  }
  /// cgroup v1 with its memory controller beside others, and an unused v2 tree, as systemd's hybrid mode has it.
  void mount_legacy(const std::string& own, const std::string& top) {
    write("proc/self/cgroup", "5:devices:/user\n4:cpuacct,memory:" + own + "\n0::/\n");
    write("proc/self/mountinfo",
          "33 23 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
          "41 23 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
          "34 23 0:31 " +
              top + " /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpuacct,memory\n");
  }
  void unified_group(const std::string& group, const std::string& limit, std::int64_t used, std::int64_t cached) {
    const std::string path = "sys/fs/cgroup" + group + "/";
    write(path + "memory.max", limit + "\n");
    write(path + "memory.current", std::to_string(used) + "\n");
    write(path + "memory.stat", "anon 77\nfile 999999999999\ninactive_file " + std::to_string(cached / 2) +
                                    "\nactive_file " + std::to_string(cached - cached / 2) + "\n");
  }
  void legacy_group(const std::string& group, const std::string& limit, std::int64_t used, std::int64_t cached) {
    const std::string path = "sys/fs/cgroup/memory" + group + "/";
    write(path + "memory.limit_in_bytes", limit + "\n");
    write(path + "memory.usage_in_bytes", std::to_string(used) + "\n");
    write(path + "memory.stat", "inactive_file 5\nactive_file 5\ntotal_inactive_file " + std::to_string(cached) + "\n");
  }
  MemoryShare free() const { return free_host_memory(folder_.at("")); }

 private:
  TemporaryFolder folder_;
};

void check_share(const MemoryShare& share, std::int64_t bytes, MemoryBound bound) {
  CHECK(share.bytes == bytes);
  CHECK(share.bound == bound);
}

constexpr std::int64_t kAvailable = 8192000LL * 1024;

}  // namespace

TEST_CASE("Without a memory cgroup, the machine's available memory is free") {
  FakeRoot root;
  check_share(root.free(), kAvailable, MemoryBound::kFree);
  root.mount_unified();
  check_share(root.free(), kAvailable, MemoryBound::kFree);  // no controller on
  root.unified_group("/slurm/job_7/step_0", "max", 100, 50);
  check_share(root.free(), kAvailable, MemoryBound::kFree);
  root.unified_group("/slurm/job_7/step_0", std::to_string(kAvailable + 101), 100, 0);  // leaves more than there is
  check_share(root.free(), kAvailable, MemoryBound::kFree);
}

TEST_CASE("A limit of cgroup v2 leaves what is not used, page cache counted as free") {
  FakeRoot root;
  root.mount_unified();
  root.unified_group("/slurm/job_7/step_0", std::to_string(4096 * kMiB), 1000 * kMiB, 301);
  check_share(root.free(), 3096 * kMiB + 301, MemoryBound::kControlGroup);
  root.unified_group("/slurm/job_7/step_0", std::to_string(4096 * kMiB), 1000 * kMiB, 2000 * kMiB);  // told later
  check_share(root.free(), 4096 * kMiB, MemoryBound::kControlGroup);
  root.write("sys/fs/cgroup/slurm/job_7/step_0/memory.high", std::to_string(2048 * kMiB));
  check_share(root.free(), 2048 * kMiB, MemoryBound::kControlGroup);
  root.unified_group("/slurm/job_7/step_0", std::to_string(10 * kMiB), 11 * kMiB, 0);  // full: not "unknown"
  check_share(root.free(), 1024, MemoryBound::kControlGroup);  // so much that a share of it is not 0
}

TEST_CASE("The tightest of a process's cgroup and those above it counts: Slurm limits the job, not the step") {
  FakeRoot root;
  root.mount_unified();
  root.unified_group("/slurm/job_7/step_0", "max", 100 * kMiB, 0);
  root.unified_group("/slurm/job_7", std::to_string(500 * kMiB), 120 * kMiB, 20 * kMiB);
  root.unified_group("/slurm", std::to_string(1000 * kMiB), 120 * kMiB, 0);
  root.unified_group("/slurm/job_8", std::to_string(1 * kMiB), 0, 0);  // somebody else's
  check_share(root.free(), 400 * kMiB, MemoryBound::kControlGroup);
  root.unified_group("/slurm", std::to_string(1000 * kMiB), 900 * kMiB, 0);
  check_share(root.free(), 100 * kMiB, MemoryBound::kControlGroup);
  root.unified_group("", std::to_string(60 * kMiB), 0, 0);  // a container's root
  check_share(root.free(), 60 * kMiB, MemoryBound::kControlGroup);
}

TEST_CASE("A limit of cgroup v1 is found beside other controllers, and in its parents") {
  FakeRoot root;
  root.mount_legacy("/slurm/uid_1/job_7", "/");
  root.legacy_group("/slurm/uid_1/job_7", "9223372036854771712", 100 * kMiB, 0);  // the kernel's "none"
  check_share(root.free(), kAvailable, MemoryBound::kFree);
  root.legacy_group("/slurm", std::to_string(700 * kMiB), 300 * kMiB, 50 * kMiB);
  check_share(root.free(), 450 * kMiB, MemoryBound::kControlGroup);
  root.legacy_group("/slurm/uid_1/job_7", std::to_string(200 * kMiB), 100 * kMiB, 0);
  check_share(root.free(), 100 * kMiB, MemoryBound::kControlGroup);
}

TEST_CASE(
    "In a container that sees a part of the tree, paths begin at that part; outside it, the part's own limit counts") {
  FakeRoot root;
  root.mount_legacy("/docker/abc/inner", "/docker/abc");
  root.legacy_group("", std::to_string(900 * kMiB), 0, 0);
  root.legacy_group("/inner", std::to_string(300 * kMiB), 0, 0);
  check_share(root.free(), 300 * kMiB, MemoryBound::kControlGroup);
  root.mount_legacy("/elsewhere", "/docker/abc");
  check_share(root.free(), 900 * kMiB, MemoryBound::kControlGroup);
  root.mount_legacy("/../..", "/");
  check_share(root.free(), 900 * kMiB, MemoryBound::kControlGroup);
}

TEST_CASE("What cannot be read is unknown, and limits nothing") {
  FakeRoot root;
  root.write("proc/meminfo", "MemTotal: 5 kB\n");
  check_share(root.free(), 0, MemoryBound::kFree);
  root.mount_unified();
  root.unified_group("/slurm/job_7/step_0", std::to_string(7 * kMiB), 0, 0);
  check_share(root.free(), 7 * kMiB, MemoryBound::kControlGroup);
  root.write("proc/self/cgroup", "nonsense\n0:\n::::\n");
  root.write("proc/self/mountinfo", "short\n- -\n");
  check_share(root.free(), 0, MemoryBound::kFree);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
TEST_CASE("ulimit -v leaves what is not mapped yet, to every rank by itself") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  if (before.rlim_cur == RLIM_INFINITY) CHECK(free_address_space(1).bytes == 0);
  rlimit limit = before;
  limit.rlim_cur = std::size_t{64} << 30;
  const bool allowed = before.rlim_cur > limit.rlim_cur && ::setrlimit(RLIMIT_AS, &limit) == 0;
  REQUIRE(allowed);
  const MemoryShare share = free_address_space(1), with_threads = free_address_space(101);
  CHECK(share.bytes - with_threads.bytes >= 799 * kMiB);  // a hundred stacks
  CHECK(share.bound == MemoryBound::kAddressSpace);
  CHECK(share.bytes < std::int64_t{64} << 30);
  CHECK(share.bytes > std::int64_t{32} << 30);
  limit.rlim_cur = std::size_t{2} << 30;
  REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  const MemoryShare alone = host_memory_share(1, 1), one_of_many = host_memory_share(1'000'000, 1);
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(alone.bytes <= std::int64_t{2} << 30);
  CHECK(one_of_many.bytes < 100 * kMiB);  // of a million ranks, what the machine has free is less
  CHECK(one_of_many.bound != MemoryBound::kAddressSpace);
}
#endif
