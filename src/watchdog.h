// Watchdog: ends the process with exit code 8 when a stage outlasts its deadline, and nobody on any rank is at work.
// A blocking MPI collective cannot time out by itself; without this, one lost rank leaves the others waiting for ever.
// Made by the drivers; each stage of the solver announces itself, by the way to Progress too: what has a deadline is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "src/roll_call.h"

namespace tallsketch {

class Communicator;
class Progress;

class Watchdog {
 public:
  /// Collective. Of several ranks: an overdue one ends the job only if no rank is at work any more, or one is missing; that is
  /// told once, by rank 0, with the ranks that keep the others waiting.
  /// timeout   seconds a stage may take beyond its own estimate; <= 0 switches the watchdog off
  /// progress  hears of every stage, and outlives the watchdog; may be null
  Watchdog(double timeout, const Communicator& comm, Progress* progress = nullptr);
  /// Of a process alone, before it has a communicator and after. who  "rank 3 on host" for the message
  Watchdog(double timeout, std::string who, Progress* progress = nullptr);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The current stage is `name`, and overdue after timeout + 3 x estimate seconds from now.
  void enter(const std::string& name, double estimate = 0);
  /// The current stage has made progress: its deadline starts anew.
  void touch();

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  /// The thread that looks at the clock. It calls no MPI, which may hang.
  void watch();
  /// The thread that talks with other ranks.
  void converse();
  void hold_roll_call(const Whereabouts& mine);
  /// Both with the mutex held.
  Whereabouts mine() const;
  void renew();
  [[noreturn]] void end(const Whereabouts& mine, const std::string& of_others);

  double timeout_;
  std::string who_;
  const Communicator* comm_ = nullptr;   // null: alone
  std::unique_ptr<RollCall> roll_call_;  // of several ranks
  Progress* progress_ = nullptr;
  std::mutex mutex_;  // for all below
  std::condition_variable changed_;
  std::string stage_ = "start";
  double allowance_ = 0;
  Clock::time_point deadline_, progress_time_;
  std::optional<Clock::time_point> overdue_since_;  // and not renewed
  bool stop_ = false;
  std::thread clock_thread_, talk_thread_;
};

}  // namespace tallsketch
