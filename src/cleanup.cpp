#include "src/cleanup.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

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
// Written by a handler on whichever thread the system picks, and read by others. Times are seconds of the monotonic clock.
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);
std::atomic<int> prints = 0, defers = 0, deferred = 0, saved = 0;
std::atomic<std::int64_t> deferred_at = 0;

/// A launcher and a terminal may both pass on what is one wish (timeout(1) does it itself): not a second one before this.
constexpr std::int64_t kSecondWish = 1'000'000'000;  // nanoseconds

std::int64_t monotonic_nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // safe in a handler
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool is_urgent(int signal) { return signal == SIGINT || signal == SIGTERM; }

/// Keeps a signal for whoever asks; false where it is the second wish to end, which is not kept.
bool defer(int signal) {
  const std::int64_t now = monotonic_nanoseconds();
  const int before = deferred.load();
  if (is_urgent(before) && is_urgent(signal)) return now - deferred_at.load() < kSecondWish;
  deferred_at.store(now);
  deferred.store(signal);
  return true;
}

template <std::size_t N>
void print(const char (&message)[N]) {
  const ssize_t written = ::write(STDERR_FILENO, message, N - 1);
  static_cast<void>(written);
}

void end_on_signal(int signal) {
  if (defers != 0 && defer(signal)) return;
  remove_temporaries();
  if (prints != 0 && saved != 0) {
    print("tallsketch: error: stopped by a signal; go on from the last checkpoint with --resume\n");
  } else if (prints != 0) {
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
  prints = is_root ? 1 : 0;
  for (const int signal : kEndingSignals) std::signal(signal, end_on_signal);
}

void note_checkpoint(bool exists) { saved = exists ? 1 : 0; }

DeferSignals::DeferSignals() { defers = 1; }
DeferSignals::~DeferSignals() {
  defers = 0;
  if (const int signal = deferred; signal != 0) end_on_signal(signal);
}
int DeferSignals::received() { return deferred; }

void ignore_ending_signals() {
  deferred = 0;
  for (const int signal : kEndingSignals) std::signal(signal, SIG_IGN);
}

}  // namespace tallsketch
