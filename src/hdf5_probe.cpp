#include "src/hdf5_probe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/error.h"
#include "src/hdf5_dataset.h"
#include "src/hdf5_file.h"
#include "src/processor_budget.h"

namespace tallsketch {

namespace {

constexpr rlim_t kProcessorSeconds = 60, kMemoryBytes = rlim_t{512} << 20;
constexpr std::size_t kFilesPerProcess = 128;  // of paths up to 4096 bytes: below the 2 MiB of a command line
// Of the first file, and of the others: 0.5 s and 0.06 s of processor time with gzip, one file after the other.
constexpr std::int64_t kLargestFirstChunk = std::int64_t{64} << 20, kLargestChunk = std::int64_t{8} << 20;

// What the probe says, on its standard output: a letter for each file before it is opened, then one for how it ended.
constexpr char kBegins = '.', kDone = 'D', kFailed = 'E';  // kFailed: then the exit code as a byte, and the message

// The probe --------------------------------------------------------------------------------------------------------

void say(std::string_view words) {
  while (!words.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, words.data(), words.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) words.remove_prefix(static_cast<std::size_t>(written));
  }
}

void lower_limit(int resource, rlim_t most) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return;
  limit.rlim_cur = std::min(limit.rlim_cur, most);
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// What is mapped already: the libraries of GPUs take some GiB of addresses.
rlim_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  rlim_t pages = 0;
  file >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}
#endif

/// parent  of this process when it was started
void limit_probe(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);                // it does not outlive the run, whatever ends that
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);  // which has ended before that
  lower_limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which map terabytes
  lower_limit(RLIMIT_AS, mapped_bytes() + kMemoryBytes);
#endif
}

/// words    paths, each with how many datasets, and their names
/// current  out: the path that it has come to
void look_at_files(std::span<char*> words, bool by_columns, const char*& current) {
  const ProcessorBudget budget(kProcessorSeconds);
  std::int64_t largest = kLargestFirstChunk;
  for (std::size_t at = 0; at + 1 < words.size(); largest = kLargestChunk) {
    budget.renew();
    current = words[at];
    say(std::string(1, kBegins));
    const Hdf5File file = Hdf5File::open(words[at], nullptr);
    const std::size_t count = std::strtoul(words[at + 1], nullptr, 10);
    at += 2;
    for (const std::size_t end = std::min(words.size(), at + count); at < end; ++at) {
      Hdf5Dataset dataset(file, words[at], by_columns);
      dataset.read_first_chunk(largest);
    }
  }
}

// The run ----------------------------------------------------------------------------------------------------------

/// The words of a probe, and how its process ended.
struct Heard {
  std::string words;
  std::optional<int> status;  // nothing where the system does not tell
  double seconds = 0;         // of processor time that it used
};

class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    // What a C library says of a process that it aborts is not the run's message.
    ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    ::posix_spawn_file_actions_addclosefrom_np(&actions_,
                                               STDERR_FILENO + 1);  // MPI's connections are none of its business
#endif
#endif
    // Signals that end the run come to its whole process group; the run itself ends the probe.
    sigset_t blocked, by_default;
    ::sigemptyset(&blocked);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaddset(&blocked, signal);
    ::sigemptyset(&by_default);
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU}) ::sigaddset(&by_default, signal);
    ::posix_spawnattr_setsigmask(&attributes_, &blocked);
    ::posix_spawnattr_setsigdefault(&attributes_, &by_default);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// began  called for each file that the probe begins with, as it does
std::string read_all(int descriptor, const std::function<void()>& began) {
  std::string all;
  std::size_t files = 0;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t got = ::read(descriptor, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(part.data(), static_cast<std::size_t>(got));
    for (; files < all.size() && all[files] == kBegins; ++files) {
      if (began) began();
    }
  }
}

/// Nothing where no process can be started.
std::optional<Heard> ask_process(const std::string& program, std::vector<std::string> words,
                                 const std::function<void()>& began) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const SpawnSettings settings(ends[1]);
  const bool started =
      ::posix_spawn(&child, program.c_str(), settings.actions(), settings.attributes(), argv.data(), environ) == 0;
  ::close(ends[1]);
  Heard heard;
  if (started) heard.words = read_all(ends[0], began);
  ::close(ends[0]);
  if (!started) return std::nullopt;
  pid_t waited = 0;
  rusage used{};
  int status = 0;
  do {
    waited = ::wait4(child, &status, 0, &used);
  } while (waited < 0 && errno == EINTR);
  if (waited < 0) return heard;  // a program that ignores SIGCHLD is told nothing
  heard.status = status;
  heard.seconds = processor_seconds(used);
  return heard;
}

std::string signal_words(int signal) {
  const char* const name = ::strsignal(signal);
  return fmt::format("signal {}{}{}", signal, name != nullptr ? ", " : "", name != nullptr ? name : "");
}

void judge(const Heard& heard, std::span<const ProbedFile> files) {
  const std::string& words = heard.words;
  const auto begun = static_cast<std::size_t>(
      std::find_if(words.begin(), words.end(), [](char c) { return c != kBegins; }) - words.begin());
  const std::string end = words.substr(begun);
  if (end.size() >= 2 && end[0] == kFailed) {
    throw Error(static_cast<ErrorKind>(static_cast<unsigned char>(end[1])), end.substr(2));
  }
  // Before the first file that says nothing of a file.
  const bool exited = heard.status && WIFEXITED(*heard.status);
  if (end.starts_with(kDone) || begun == 0 || (exited && WEXITSTATUS(*heard.status) == 0)) return;
  const std::string& path = files[std::min(begun, files.size()) - 1].path;
  const int signal = exited || !heard.status ? 0 : WTERMSIG(*heard.status);
  rlimit own{};  // which the probe has inherited; SIGKILL where the hard one is no higher
  const bool limited = ::getrlimit(RLIMIT_CPU, &own) == 0 && own.rlim_cur != RLIM_INFINITY;
  require(
      !limited || (signal != SIGXCPU && signal != SIGKILL) || heard.seconds + 1 < static_cast<double>(own.rlim_cur),
      ErrorKind::kInput,
      fmt::format("opening '{}' took what was left of the {} s of processor time that a process may take here; raise "
                  "that limit (ulimit -t), unless the file is corrupt",
                  path, own.rlim_cur));
  require(signal != SIGKILL, ErrorKind::kMemory,
          fmt::format("the process that opens '{}' first was killed, perhaps by the system for lack of memory", path));
  std::string what = fmt::format("crashes on it ({})", signal_words(signal));
  if (signal == SIGXCPU)
    what = fmt::format("does not come to an end with it ({} s of processor time)", kProcessorSeconds);
  if (!heard.status) what = "ends without a word on it";
  if (exited) what = fmt::format("fails on it (exit code {})", WEXITSTATUS(*heard.status));  // sanitizers catch signals
  throw Error(ErrorKind::kInput,
              fmt::format("'{}' cannot be read: HDF5 {} {}; the file is corrupt", path, hdf5_library_version(), what));
}

}  // namespace

int run_probe(int argc, char** argv) {
  // who asks, order of columns, then for each file its path, how many datasets, and their names
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  if (words.size() < 2) return EXIT_FAILURE;
  limit_probe(static_cast<pid_t>(std::strtol(words[0], nullptr, 10)));
  const bool by_columns = std::string_view(words[1]) == "columns";
  const char* current = "";
  std::optional<Error> failure;
  try {
    look_at_files(words.subspan(2), by_columns, current);
  } catch (const Error& e) {
    failure = e;
  } catch (const std::bad_alloc&) {
    failure.emplace(
        ErrorKind::kInput,
        fmt::format("opening '{}' takes more than {} MiB of memory, more than a probe may take; perhaps the "
                    "file is corrupt",
                    current, kMemoryBytes >> 20));
  }
  if (failure) {  // at once: HDF5 may crash as it ends, and the reason is known
    say(fmt::format("{}{}{}", kFailed, static_cast<char>(failure->exit_code()), failure->what()));
    return 0;
  }
  H5close();  // before it is well: it may crash there, too
  say(std::string(1, kDone));
  return 0;
}

void probe_hdf5(const std::string& program, const std::vector<ProbedFile>& files, bool by_columns,
                const std::function<void()>& progressed) {
  if (program.empty()) return;
  for (std::size_t first = 0; first < files.size(); first += kFilesPerProcess) {
    const std::span part = std::span(files).subspan(first, std::min(kFilesPerProcess, files.size() - first));
    std::vector<std::string> words = {"tallsketch", kProbeCommand, fmt::to_string(::getpid()),
                                      by_columns ? "columns" : "rows"};
    for (const ProbedFile& file : part) {
      words.push_back(file.path);
      words.push_back(fmt::to_string(file.datasets.size()));
      words.insert(words.end(), file.datasets.begin(), file.datasets.end());
    }
    if (const auto heard = ask_process(program, std::move(words), progressed)) judge(*heard, part);
  }
}

}  // namespace tallsketch
