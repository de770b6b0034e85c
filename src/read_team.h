// ReadTeam: threads that wait until there is something to read together. One a RowSource, shared by its files; used by
// DirectReader. Between reads that follow each other they look again and again for a moment, which saves the wake-up of every
// thread; then they sleep: a team that went on looking would take the cores of those who compute.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
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

  /// Calls work(member) on the caller's thread, member 0, and on up to members - 1 others, each always with the same number
  /// below `members`, and returns when all calls have. Others that wake too late are not called: work shares tasks out by
  /// itself. One caller at a time; work must not throw.
  void run(int members, const std::function<void(int member)>& work);

 private:
  void serve(int member);

  int threads_;
  std::mutex mutex_;  // for all below; what is atomic is also looked at without it
  std::condition_variable wanted_, done_;
  const std::function<void(int)>* work_ = nullptr;
  int members_ = 0, asleep_ = 0;
  std::atomic<int> active_{0};
  std::atomic<std::uint64_t> round_{0};
  bool stop_ = false;
  std::vector<std::thread> others_;
};

}  // namespace tallsketch
