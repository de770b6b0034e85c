#include "src/read_team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace tallsketch {

namespace {

/// Looks for up to 50 us, a tenth of what a read of a chunk takes on a fast machine.
template <class F>
void look_for(F&& there) {
  constexpr std::chrono::microseconds kPatience{50};
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!there() && std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace

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
  int asleep = 0;
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    wanted_ = members - 1;
    offered_ = wanted_;
    next_member_ = 1;
    asleep = asleep_;
  }
  if (members > 1 && asleep > 0) wanted_change_.notify_all();
  work(0);
  offered_ = 0;
  look_for([&] { return busy_ == 0; });
  std::unique_lock lock(mutex_);
  wanted_ = 0;
  done_.wait(lock, [&] { return active_ == 0; });
  work_ = nullptr;
}

void ReadTeam::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++asleep_;
    wanted_change_.wait(lock, [&] { return stop_ || wanted_ > 0; });
    --asleep_;
    if (stop_) return;
    while (wanted_ > 0) {
      const int member = next_member_++;
      const auto& work = *work_;
      offered_ = --wanted_;
      busy_ = ++active_;
      lock.unlock();
      work(member);
      lock.lock();
      busy_ = --active_;
      if (active_ == 0) done_.notify_one();
      lock.unlock();
      look_for([&] { return offered_ > 0; });
      lock.lock();
    }
  }
}

}  // namespace tallsketch
