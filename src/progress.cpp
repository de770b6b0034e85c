#include "src/progress.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tallsketch {

std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    shown += code < 0x20 || code == 0x7f ? fmt::format("\\x{:02x}", code) : std::string(1, c);
  }
  return shown;
}

std::string progress_text(const std::string& stage, double done, double bytes_done, double elapsed, PassCount pass,
                          int ranks) {
  std::string text = stage + ":";
  const bool several = pass.number > 1 || pass.expected > 1;
  const bool foreseen = std::isfinite(pass.expected) && pass.number <= std::round(pass.expected);
  if (several) text += fmt::format(" pass {}", pass.number);
  if (several && foreseen) text += fmt::format(" of about {:.0f}", pass.expected);
  text += fmt::format("{} {:.0f} %{}", several ? "," : "", 100 * done, ranks > 1 ? " of rank 0's rows" : "");
  const double passes_done = pass.number - 1 + done;
  if (done > 0 && elapsed > 0 && bytes_done > 0) {
    text += fmt::format(", {:.2f} GB/s", bytes_done / done * passes_done * ranks / elapsed / 1e9);
    if (ranks > 1) text += fmt::format(" if all {} ranks keep its pace", ranks);
  }
  if (passes_done > 0 && foreseen) {
    text += fmt::format(", about {:.0f} s left", elapsed * std::max(0.0, pass.expected - passes_done) / passes_done);
  }
  return text;
}

Progress::Progress(std::FILE* stream, bool verbose, int ranks) : Progress(stream, verbose, ranks, Pace{}) {}

Progress::Progress(std::FILE* stream, bool verbose, int ranks, Pace pace)
    : stream_(stream), verbose_(verbose), ranks_(ranks), pace_(pace) {
  if (stream_ != nullptr) thread_ = std::thread([this] { keep_talking(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Progress::line(const std::string& text) {
  if (stream_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  write(text);
}

void Progress::warning(const std::string& text) {
  if (stream_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (warned_.insert(text).second) write("warning: " + text);
}

void Progress::detail(const std::string& text) {
  if (verbose_) line(text);
}

void Progress::stage(const std::string& name) {
  if (stream_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  enter(name);
}

void Progress::fraction(const std::string& stage, double done, double bytes_done, PassCount pass) {
  if (stream_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  enter(stage);
  state_time_ = Clock::now();
  const double elapsed = std::chrono::duration<double>(state_time_ - stage_start_).count();
  state_ = progress_text(stage, done, bytes_done, elapsed, pass, ranks_);
  if (state_time_ - last_line_ >= pace_.least) write(state_);
}

/// Holds the mutex, as do the two below.
void Progress::enter(const std::string& name) {
  if (name == stage_) return;
  stage_ = name;
  state_.clear();
  stage_start_ = Clock::now();
}

void Progress::write(const std::string& text) {
  const std::string whole = printable(text) + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stream_);
  std::fflush(stream_);
  last_line_ = Clock::now();
}

void Progress::keep_talking() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::time_point due = last_line_ + pace_.most, now = Clock::now();
    if (now < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    const auto seconds = [now](Clock::time_point since) { return std::chrono::duration<double>(now - since).count(); };
    write(state_.empty() ? fmt::format("{}: under way for {:.0f} s", stage_, seconds(stage_start_))
                         : fmt::format("{}; unchanged for {:.0f} s", state_, seconds(state_time_)));
  }
}

}  // namespace tallsketch
