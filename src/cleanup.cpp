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
volatile std::sig_atomic_t defers = 0, deferred = 0, saved = 0;

template <std::size_t N>
void print(const char (&message)[N]) {
  const ssize_t written = ::write(STDERR_FILENO, message, N - 1);
  static_cast<void>(written);
}

void end_on_signal(int signal) {
  if (defers != 0) {
    deferred = signal;
    return;
  }
  remove_temporaries();
  if (prints && saved != 0) {
    print("tallsketch: error: stopped by a signal; go on from the last checkpoint with --resume\n");
  } else if (prints) {
    print("tallsketch: error: stopped by a signal; nothing saved\n");
  }
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

void note_checkpoint(bool exists) { saved = exists ? 1 : 0; }

DeferSignals::DeferSignals() { defers = 1; }
DeferSignals::~DeferSignals() {
  defers = 0;
  if (deferred != 0) end_on_signal(deferred);
}
int DeferSignals::received() { return deferred; }

void ignore_ending_signals() {
  deferred = 0;
  for (const int signal : kEndingSignals) std::signal(signal, SIG_IGN);
}

}  // namespace tallsketch
