#include "src/read_ahead.h"

#include <chrono>

namespace tallsketch {

ReadAhead::ReadAhead(RowSource& source) : source_(source), thread_([this] { read(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadAhead::request(const ChunkBuffer& chunk) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back(chunk);
  }
  changed_.notify_all();
}

void ReadAhead::await() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return filled_ > 0 || failure_ != nullptr; });
  if (filled_ > 0) {
    --filled_;
    return;
  }
  std::rethrow_exception(failure_);
}

double ReadAhead::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

void ReadAhead::read() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !wanted_.empty(); });
    if (stop_) return;
    const ChunkBuffer chunk = wanted_.front();
    wanted_.pop_front();
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    std::exception_ptr failure;
    try {
      source_.read_encoded(chunk.rows, chunk.a, chunk.b);
    } catch (...) {
      failure = std::current_exception();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    lock.lock();
    seconds_ += seconds;
    if (failure) {
      failure_ = failure;
    } else {
      ++filled_;
    }
    changed_.notify_all();
    if (failure) return;
  }
}

}  // namespace tallsketch
