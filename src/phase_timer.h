// PhaseTimer: wall-clock seconds per phase, on this rank. Made by the solver, read by the report.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace tallsketch {

enum class Phase : int { kOpen, kRead, kUpload, kSketch, kReduce, kFactor, kRefine, kWrite, kTotal };
inline constexpr std::size_t kPhases = 9;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"open",   "read",   "upload", "sketch", "reduce",
                                                                 "factor", "refine", "write",  "total"};

class PhaseTimer {
 public:
  /// Runs f and adds its wall-clock time to the phase.
  template <class F>
  decltype(auto) time(Phase phase, F&& f) {
    const Stopwatch stopwatch(&seconds_[static_cast<std::size_t>(phase)]);
    return f();
  }
  void add(Phase phase, double seconds) { seconds_[static_cast<std::size_t>(phase)] += seconds; }
  double seconds(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  const std::array<double, kPhases>& all() const { return seconds_; }

 private:
  class Stopwatch {
   public:
    explicit Stopwatch(double* total) : total_(total), start_(std::chrono::steady_clock::now()) {}
    ~Stopwatch() { *total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

   private:
    double* total_;
    std::chrono::steady_clock::time_point start_;
  };
  std::array<double, kPhases> seconds_{};
};

}  // namespace tallsketch
