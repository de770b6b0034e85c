// Progress: what rank 0 tells the user while it works, a whole line at a time, without control characters. While nobody
// says anything, a thread of its own repeats what is under way, so that a job that waits is told from one that hangs.
// Made by the drivers, before the Watchdog that announces stages to it; other ranks hold a silent one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace tallsketch {

/// The text with control characters shown as \x1b, so that a file name or a library's text is one harmless line.
std::string printable(const std::string& text);

/// Which of several equal passes over the data is under way.
struct PassCount {
  int number = 1;
  double expected = 1;  // in all; may turn out wrong
};

/// "refine: pass 7 of about 18, 43 %, 5.20 GB/s, about 120 s left": rate and rest from all passes so far.
/// done        of this pass on rank 0, in [0, 1]
/// bytes_done  of this pass on rank 0
/// elapsed     seconds since the first pass began
/// ranks       what the rate is of, if all keep rank 0's pace; above 1 the text says so
std::string progress_text(const std::string& stage, double done, double bytes_done, double elapsed, PassCount pass,
                          int ranks);

class Progress {
 public:
  /// Seconds between lines of a stage: not fewer than the first, not more than the second.
  struct Pace {
    std::chrono::milliseconds least{5000}, most{10000};
  };

  /// stream  where lines go, or nullptr for silence
  explicit Progress(std::FILE* stream, bool verbose = false, int ranks = 1);
  Progress(std::FILE* stream, bool verbose, int ranks, Pace pace);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Writes one line and flushes, so that a batch log shows it at once.
  void line(const std::string& text);
  /// "warning: text", unless that was told before.
  void warning(const std::string& text);
  /// Like line, only with --verbose.
  void detail(const std::string& text);
  /// What is under way from now on. The same name again goes on with the stage.
  void stage(const std::string& name);
  /// How far the stage is; enters it if it is another one. Writes a line if the last one is Pace::least old.
  void fraction(const std::string& stage, double done, double bytes_done, PassCount pass = {});

 private:
  using Clock = std::chrono::steady_clock;
  void enter(const std::string& name);
  void write(const std::string& text);
  void keep_talking();

  std::FILE* const stream_;
  const bool verbose_;
  const int ranks_;
  const Pace pace_;
  std::mutex mutex_;  // for all below, and the order of lines
  std::condition_variable changed_;
  std::set<std::string> warned_;
  std::string stage_ = "start";
  std::string state_;  // the last fraction of the stage; empty: none yet
  Clock::time_point stage_start_ = Clock::now(), state_time_ = stage_start_, last_line_ = stage_start_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tallsketch
