#include "src/watchdog.h"

#include <cstdio>
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

constexpr std::chrono::milliseconds kListen{200};  // between looks for other ranks' words
constexpr double kHearing = 5;  // seconds for answers to a roll call; a rank that lives takes kListen
constexpr double kHeard = 12;   // that an overdue rank waits for rank 0, which may be lost: then it speaks for itself,
constexpr double kRankOneSpeaks = 1;  // rank 1 before the others, because launchers end a job with its first process
constexpr double kOfLate = 0.25;      // of the allowance: progress since then shows that a rank that waits is not stuck
constexpr std::chrono::milliseconds kParting{
    600};  // for the others to hear that it ends, and to end with the same code

Clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// exit would call destructors, which call the very library that hangs.
[[noreturn]] void end_process(int code = static_cast<int>(ErrorKind::kCommunication)) {
  remove_temporaries();
  ::_exit(code);
}

/// When another rank has spoken. The first process that ends makes a launcher send TERM to the others, whose answer to that would
/// be another code: so nobody ends before all have heard, and TERM is ignored.
[[noreturn]] void end_as_told(int code = static_cast<int>(ErrorKind::kCommunication)) {
  ignore_ending_signals();
  std::this_thread::sleep_for(2 * kListen);
  end_process(code);
}

}  // namespace

Watchdog::Watchdog(double timeout, std::string who, Progress* progress)
    : timeout_(timeout), who_(std::move(who)), progress_(progress), allowance_(timeout) {
  start();
}

Watchdog::Watchdog(double timeout, const Communicator& comm, Progress* progress)
    : timeout_(timeout),
      who_(fmt::format("rank {} on {}", comm.rank(), comm.host())),
      comm_(&comm),
      progress_(progress),
      allowance_(timeout) {
  if (comm.size() > 1 && RollCall::is_possible()) roll_call_ = std::make_unique<RollCall>(comm);
  start();
}

void Watchdog::start() {
  touch();
  if (timeout_ > 0) clock_thread_ = std::thread([this] { watch(); });
  // Without a deadline too: another rank may fail alone, and say so.
  if (roll_call_) talk_thread_ = std::thread([this] { converse(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (clock_thread_.joinable()) clock_thread_.join();
  if (talk_thread_.joinable()) talk_thread_.join();
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
  changed_.notify_all();  // the new deadline may be earlier than the one that watch() sleeps for
  fault_at_stage(comm_ != nullptr ? comm_->rank() : 0, name);
}

void Watchdog::touch() {
  const std::lock_guard lock(mutex_);
  progress_time_ = Clock::now();
  renew();
}

void Watchdog::renew() {
  deadline_ = Clock::now() + as_duration(allowance_);
  overdue_since_.reset();
}

Whereabouts Watchdog::mine() const {
  const auto now = Clock::now();
  Whereabouts mine;
  mine.stage = stage_;
  mine.idle = std::chrono::duration<double>(now - progress_time_).count();
  mine.waiting = comm_ != nullptr && comm_->is_waiting();
  mine.alive = mine.waiting ? mine.idle < kOfLate * allowance_ : now < deadline_;
  return mine;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto now = Clock::now();
    if (now < deadline_) {
      changed_.wait_until(lock, deadline_);
      continue;
    }
    if (!overdue_since_) overdue_since_ = now;
    const double patience = !roll_call_ ? 0 : kHeard + (comm_->rank() > 1 ? kRankOneSpeaks : 0);
    const auto own_word = *overdue_since_ + as_duration(patience);
    if (now >= own_word) end(mine(), "");
    changed_.wait_until(lock, own_word);
  }
}

void Watchdog::converse() {
  bool has_asked = false;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Whereabouts here = mine();
    const bool overdue = overdue_since_.has_value();
    lock.unlock();
    RollCall::Verdict verdict = RollCall::Verdict::kNone;
    if (roll_call_->is_caller()) {
      if (roll_call_->is_asked_for() || overdue) hold_roll_call(here);
    } else {
      verdict = roll_call_->listen(here);
      if (overdue && !has_asked) roll_call_->ask_for();
      has_asked = overdue;
    }
    if (verdict == RollCall::Verdict::kEnd) end_as_told();
    if (const auto code = comm_->last_word()) end_as_told(*code);
    lock.lock();
    if (verdict == RollCall::Verdict::kGoOn && overdue_since_) {
      renew();
      has_asked = false;
    }
    if (!stop_) changed_.wait_for(lock, kListen);
  }
}

void Watchdog::hold_roll_call(const Whereabouts& mine) {
  const auto answers = roll_call_->call(mine, kHearing);
  std::unique_lock lock(mutex_);
  if (may_go_on(answers)) {
    if (overdue_since_) renew();
    lock.unlock();
    roll_call_->announce(RollCall::Verdict::kGoOn);
    return;
  }
  end(mine, absent_text(answers, roll_call_->hosts()));
}

void Watchdog::end(const Whereabouts& mine, const std::string& of_others) {
  ignore_ending_signals();  // a launcher that sees another rank end first
  const std::string what =
      mine.waiting ? fmt::format("{} waited {:.0f} s for other ranks in stage '{}'", who_, mine.idle, mine.stage)
                   : fmt::format("{}: stage '{}' made no progress for {:.0f} s", who_, mine.stage, mine.idle);
  const std::string guess = !of_others.empty() ? "" : mine.waiting ? " (a lost rank?)" : " (a stuck file system?)";
  const std::string text =
      fmt::format("tallsketch: error: {}{}{}; raise --timeout if the stage is only slow\n", what, guess, of_others);
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
  if (roll_call_ && roll_call_->is_caller() && std::this_thread::get_id() == talk_thread_.get_id()) {
    roll_call_->announce(RollCall::Verdict::kEnd);
    std::this_thread::sleep_for(kParting);
  }
  end_process();
}

}  // namespace tallsketch
