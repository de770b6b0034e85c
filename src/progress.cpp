#include "src/progress.h"

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

void Progress::line(const std::string& text) {
  if (stream_ == nullptr) return;
  const std::string whole = printable(text) + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stream_);
  std::fflush(stream_);
}

void Progress::detail(const std::string& text) {
  if (verbose_) line(text);
}

void Progress::fraction(const std::string& phase, double done, double bytes_done) {
  if (stream_ == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_start_ = last_ = now;
    return;
  }
  if (now - last_ < kInterval || done <= 0) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - phase_start_).count();
  line(fmt::format("{}: {:.0f} % on rank 0, {:.2f} GB/s, about {:.0f} s left", phase, 100 * done,
                   bytes_done / elapsed / 1e9, elapsed * (1 - done) / done));
}

}  // namespace tallsketch
