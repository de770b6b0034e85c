// ReadTeam: threads that wait until there is something to read together. One a RowSource, shared by its files; used by
// DirectReader. Between reads that follow each other they look again and again for a moment, which saves the wake-up of every
// thread; then they sleep: a team that went on looking would take the cores of those who compute.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tallsketch {

class ReadTeam {
 public:
  /// threads  that may read at the same time, the caller's among them; started when they are first needed
  explicit ReadTeam(int threads);
  ~ReadTeam();
  ReadTeam(const ReadTeam&) = delete;
  ReadTeam& operator=(const ReadTeam&) = delete;

  int threads() const { return threads_; }

  /// Calls work(member) on the caller's thread and on up to members - 1 others, each with a number of its own below
  /// `members`, and returns when all calls have. Others that wake too late are not called: work shares tasks out by itself.
  /// One caller at a time; work must not throw.
  void run(int members, const std::function<void(int member)>& work);

 private:
  void serve();

  int threads_;
  std::mutex mutex_;
  std::condition_variable wanted_change_, done_;
  const std::function<void(int)>* work_ = nullptr;
  int wanted_ = 0, active_ = 0, next_member_ = 0, asleep_ = 0;
  std::atomic<int> offered_{0}, busy_{0};  // wanted_ and active_, to be looked at without the mutex
  bool stop_ = false;
  std::vector<std::thread> others_;
};

}  // namespace tallsketch
