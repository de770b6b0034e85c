#include "src/cleanup.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include <unistd.h>

#include "src/error.h"

namespace tallsketch {

namespace {

// Fixed storage, because a signal handler may neither allocate nor lock. A shard of `generate` takes one place.
constexpr std::size_t kPlaces = 1024, kPathBytes = 4096;
struct Place {
  std::atomic<bool> used{false};
  std::array<char, kPathBytes> path{};
};
std::array<Place, kPlaces> places;
bool prints = false;

void end_on_signal(int signal) {
  remove_temporaries();
  if (prints) {
    const char message[] = "tallsketch: error: stopped by a signal; nothing saved\n";
    const ssize_t written = ::write(STDERR_FILENO, message, sizeof message - 1);
    static_cast<void>(written);
  }
  static_cast<void>(signal);
  ::_exit(static_cast<int>(ErrorKind::kStopped));
}

constexpr std::array<int, 4> kEndingSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

}  // namespace

void remember_temporary(const std::string& path) {
  if (path.size() >= kPathBytes) return;
  for (Place& place : places) {
    if (place.used.load()) continue;
    std::memcpy(place.path.data(), path.c_str(), path.size() + 1);
    place.used.store(true);
    return;
  }
}

void forget_temporary(const std::string& path) {
  for (Place& place : places) {
    if (place.used.load() && path == place.path.data()) place.used.store(false);
  }
}

void remove_temporaries() {
  for (Place& place : places) {
    if (place.used.exchange(false)) ::unlink(place.path.data());
  }
}

void end_cleanly_on_signals(bool is_root) {
  prints = is_root;
  for (const int signal : kEndingSignals) std::signal(signal, end_on_signal);
}

void ignore_ending_signals() {
  for (const int signal : kEndingSignals) std::signal(signal, SIG_IGN);
}

}  // namespace tallsketch
