// Watchdog: one thread a rank that ends the process with exit code 8 when a stage outlasts its deadline.
// A blocking MPI collective cannot time out by itself; without this, one lost rank leaves the others waiting for ever.
// Made by the drivers; each stage of the solver announces itself, by the way to Progress too: what has a deadline is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "src/roll_call.h"

namespace tallsketch {

class Communicator;
class Progress;

class Watchdog {
 public:
  /// Collective. What ends a job of several ranks is told once, with the ranks that are not where they should be.
  /// timeout   seconds a stage may take beyond its own estimate; <= 0 switches the watchdog off
  /// progress  hears of every stage, and outlives the watchdog; may be null
  Watchdog(double timeout, const Communicator& comm, Progress* progress = nullptr);
  /// Of a process alone. who  "rank 3 on host" for the message
  Watchdog(double timeout, std::string who, Progress* progress = nullptr);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The current stage is `name`, and overdue after timeout + 3 x estimate seconds from now.
  void enter(const std::string& name, double estimate = 0);
  /// The current stage has made progress: its deadline starts anew.
  void touch();

 private:
  void watch();
  /// Whether another rank tells of this; otherwise what is to be said of the others.
  bool told_elsewhere(const Whereabouts& mine, std::string& of_others);
  [[noreturn]] void end_overdue();

  double timeout_;
  std::string who_;
  const Communicator* comm_ = nullptr;   // null: alone
  std::unique_ptr<RollCall> roll_call_;  // of several ranks
  Progress* progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_ = "start";
  double allowance_ = 0;
  std::chrono::steady_clock::time_point deadline_, progress_time_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tallsketch
