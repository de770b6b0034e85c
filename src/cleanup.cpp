#include "src/cleanup.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <initializer_list>

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
// Two places for the stage's name, so that the one that a handler may be reading is not written.
std::array<std::array<char, 64>, 2> stages{};
std::atomic<int> stage = 0;
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

/// "TERM": strsignal is not safe in a handler.
const char* name_of(int signal) {
  switch (signal) {
    case SIGINT: return "INT";
    case SIGTERM: return "TERM";
    case SIGHUP: return "HUP";
    case SIGUSR1: return "USR1";
    default: return "another";
  }
}

/// One line of pieces, in one write: it stays whole beside the launcher's.
void print_line(std::initializer_list<const char*> pieces) {
  std::array<char, 256> line{};
  std::size_t length = 0;
  for (const char* piece : pieces) {
    while (*piece != '\0' && length < line.size() - 1) line[length++] = *piece++;
  }
  const ssize_t written = ::write(STDERR_FILENO, line.data(), length);
  static_cast<void>(written);
}

/// What happens to the run, and to what it has done.
void tell(int signal, const char* before, const char* after) {
  const char* const where = stages[static_cast<std::size_t>(stage.load())].data();
  const bool known = *where != '\0';
  print_line(
      {"tallsketch: ", before, name_of(signal), known ? " in stage '" : "", where, known ? "'" : "", after, "\n"});
}

void end_on_signal(int signal) {
  if (defers != 0 && defer(signal)) {
    if (prints != 0) tell(signal, "signal ", ": the run stops at the next border of a chunk, and saves itself");
    return;
  }
  remove_temporaries();
  if (prints != 0) {
    tell(signal, "error: stopped by signal ",
         saved != 0 ? "; go on from the last checkpoint with --resume" : "; nothing saved");
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

void note_stage(const std::string& name) {
  const int next = 1 - stage.load();
  auto& place = stages[static_cast<std::size_t>(next)];
  const std::size_t length = std::min(name.size(), place.size() - 1);
  std::memcpy(place.data(), name.data(), length);
  place[length] = '\0';
  stage.store(next);
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
