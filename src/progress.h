// Progress: what rank 0 tells the user while it works, a whole line at a time, without control characters.
// Made by the drivers; other ranks hold a silent one.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace tallsketch {

/// The text with control characters shown as \x1b, so that a file name or a library's text is one harmless line.
std::string printable(const std::string& text);

class Progress {
 public:
  /// stream  where lines go, or nullptr for silence
  explicit Progress(std::FILE* stream, bool verbose = false) : stream_(stream), verbose_(verbose) {}

  /// Writes one line and flushes, so that a batch log shows it at once.
  void line(const std::string& text);
  /// Like line, only with --verbose.
  void detail(const std::string& text);
  /// Reports a fraction done of a phase, at most one line in `kInterval`.
  void fraction(const std::string& phase, double done, double bytes_done);

 private:
  static constexpr std::chrono::seconds kInterval{5};

  std::FILE* stream_;
  bool verbose_;
  std::string phase_;
  std::chrono::steady_clock::time_point phase_start_{}, last_{};
};

}  // namespace tallsketch
