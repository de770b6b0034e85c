#include "src/read_team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace tallsketch {

namespace {

/// Looks for up to 100 us, a fifth of what a read of a chunk takes on a fast machine.
template <class F>
void look_for(F&& there) {
  constexpr std::chrono::microseconds kPatience{100};
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
  wanted_.notify_all();
  for (std::thread& other : others_) other.join();
}

void ReadTeam::run(int members, const std::function<void(int member)>& work) {
  members = std::min(members, threads_);
  while (static_cast<int>(others_.size()) < members - 1) {
    try {
      const int member = static_cast<int>(others_.size()) + 1;
      others_.emplace_back([this, member] { serve(member); });
    } catch (const std::system_error&) {
      break;  // no more threads here: fewer do it all
    }
  }
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    members_ = members;
    round_ = round_ + 1;
    wake = asleep_ > 0 && members > 1;
  }
  if (wake) wanted_.notify_all();
  work(0);
  look_for([&] { return active_ == 0; });
  std::unique_lock lock(mutex_);
  work_ = nullptr;  // whoever comes now is too late
  done_.wait(lock, [&] { return active_ == 0; });
}

void ReadTeam::serve(int member) {
  std::uint64_t seen = 0;
  while (true) {
    look_for([&] { return round_ != seen; });
    std::unique_lock lock(mutex_);
    ++asleep_;
    wanted_.wait(lock, [&] { return stop_ || round_ != seen; });
    --asleep_;
    if (stop_) return;
    seen = round_;
    if (work_ == nullptr || member >= members_) continue;
    const auto& work = *work_;
    active_ = active_ + 1;
    lock.unlock();
    work(member);
    lock.lock();
    active_ = active_ - 1;
    if (active_ == 0) done_.notify_one();
  }
}

}  // namespace tallsketch
