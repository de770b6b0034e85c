#include "src/read_team.h"

#include <algorithm>
#include <system_error>

namespace tallsketch {

ReadTeam::ReadTeam(int threads) : threads_(std::max(1, threads)) {}

ReadTeam::~ReadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_change_.notify_all();
  for (std::thread& other : others_) other.join();
}

void ReadTeam::run(int members, const std::function<void(int member)>& work) {
  members = std::min(members, threads_);
  while (static_cast<int>(others_.size()) < members - 1) {
    try {
      others_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      break;  // no more threads here: fewer do it all
    }
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    wanted_ = members - 1;
    next_member_ = 1;
  }
  if (members == 2) wanted_change_.notify_one();
  if (members > 2) wanted_change_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  wanted_ = 0;
  done_.wait(lock, [&] { return active_ == 0; });
  work_ = nullptr;
}

void ReadTeam::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_change_.wait(lock, [&] { return stop_ || wanted_ > 0; });
    if (stop_) return;
    const int member = next_member_++;
    const auto& work = *work_;
    --wanted_;
    ++active_;
    lock.unlock();
    work(member);
    lock.lock();
    if (--active_ == 0) done_.notify_one();
  }
}

}  // namespace tallsketch
