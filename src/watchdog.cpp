#include "src/watchdog.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "src/cleanup.h"
#include "src/error.h"
#include "src/progress.h"

namespace tallsketch {

Watchdog::Watchdog(double timeout, std::string who, Progress* progress)
    : timeout_(timeout),
      who_(std::move(who)),
      progress_(progress),
      allowance_(timeout),
      deadline_(std::chrono::steady_clock::now()) {
  if (timeout_ <= 0) return;
  touch();
  thread_ = std::thread([this] { watch(); });
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
  {
    const std::lock_guard lock(mutex_);
    stage_ = name;
    allowance_ = timeout_ + 3 * estimate;
  }
  touch();
  changed_.notify_one();  // the new deadline may be earlier than the one that watch() sleeps for
}

void Watchdog::touch() {
  const std::lock_guard lock(mutex_);
  deadline_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                     std::chrono::duration<double>(allowance_));
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (std::chrono::steady_clock::now() >= deadline_) {
      const std::string text = fmt::format(
          "tallsketch: error: {}: stage '{}' made no progress for {:.0f} s (a lost rank, a hung collective or a stuck "
          "file system); raise --timeout if the stage is only slow\n",
          who_, stage_, allowance_);
      remove_temporaries();
      // _exit, not exit: destructors would call the very library that hangs.
      const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
      static_cast<void>(written);
      ::_exit(static_cast<int>(ErrorKind::kCommunication));
    }
    changed_.wait_until(lock, deadline_);
  }
}

}  // namespace tallsketch
