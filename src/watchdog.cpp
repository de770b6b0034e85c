#include "src/watchdog.h"

#include <cstdio>
#include <future>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/fault.h"
#include "src/progress.h"

namespace tallsketch {

namespace {

using Clock = std::chrono::steady_clock;

// Ranks that wait for the same one are overdue within moments. Rank 0 hears them, the others wait to be told so for longer.
constexpr double kHearing = 2, kHeard = 4, kRankOneSpeaks = 1;  // seconds

Clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Watchdog::Watchdog(double timeout, std::string who, Progress* progress)
    : timeout_(timeout), who_(std::move(who)), progress_(progress), allowance_(timeout) {
  touch();
  if (timeout_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::Watchdog(double timeout, const Communicator& comm, Progress* progress)
    : timeout_(timeout),
      who_(fmt::format("rank {} on {}", comm.rank(), comm.host())),
      comm_(&comm),
      roll_call_(timeout > 0 && comm.size() > 1 ? std::make_unique<RollCall>(comm) : nullptr),
      progress_(progress),
      allowance_(timeout) {
  touch();
  if (timeout_ > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::enter(const std::string& name, double estimate) {
  if (progress_ != nullptr) progress_->stage(name);
  note_stage(name);
  {
    const std::lock_guard lock(mutex_);
    stage_ = name;
    allowance_ = timeout_ + 3 * estimate;
  }
  touch();
  changed_.notify_one();  // the new deadline may be earlier than the one that watch() sleeps for
  fault_at_stage(comm_ != nullptr ? comm_->rank() : 0, name);
}

void Watchdog::touch() {
  const std::lock_guard lock(mutex_);
  progress_time_ = Clock::now();
  deadline_ = progress_time_ + as_duration(allowance_);
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (Clock::now() >= deadline_) end_overdue();
    changed_.wait_until(lock, deadline_);
  }
}

bool Watchdog::told_elsewhere(const Whereabouts& mine, std::string& of_others) {
  if (!roll_call_) return false;
  // In a thread of its own: the MPI that hangs may hold this one, too, and the process ends anyway.
  std::packaged_task<std::pair<bool, std::string>()> task([this, mine] {
    if (roll_call_->is_asker()) return std::pair(false, roll_call_->ask(mine, kHearing));
    return std::pair(roll_call_->answer(mine, kHeard), std::string());
  });
  auto outcome = task.get_future();
  std::thread(std::move(task)).detach();
  if (outcome.wait_for(as_duration(kHeard + 1)) != std::future_status::ready) return false;
  const auto [told, others] = outcome.get();
  of_others = others;
  // Where rank 0 is lost, rank 1 speaks before the others do: launchers end a job with its first process.
  if (!told && comm_->rank() > 1) std::this_thread::sleep_for(as_duration(kRankOneSpeaks));
  return told;
}

void Watchdog::end_overdue() {
  const std::chrono::duration<double> idle = Clock::now() - progress_time_;
  const Whereabouts mine{stage_, idle.count(), comm_ != nullptr && comm_->is_waiting()};
  std::string others;
  if (!told_elsewhere(mine, others)) {
    const std::string what =
        mine.waiting ? fmt::format("{} waited {:.0f} s for other ranks in stage '{}'", who_, allowance_, stage_)
                     : fmt::format("{}: stage '{}' made no progress for {:.0f} s", who_, stage_, allowance_);
    const std::string guess = !others.empty() ? "" : mine.waiting ? " (a lost rank?)" : " (a stuck file system?)";
    const std::string text =
        fmt::format("tallsketch: error: {}{}{}; raise --timeout if the stage is only slow\n", what, guess, others);
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    static_cast<void>(written);
  }
  remove_temporaries();
  // _exit, not exit: destructors would call the very library that hangs.
  ::_exit(static_cast<int>(ErrorKind::kCommunication));
}

}  // namespace tallsketch
