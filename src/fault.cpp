#include "src/fault.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "src/error.h"

namespace tallsketch {

namespace {

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<Fault::Action> action_of(std::string_view word) {
  if (word == "kill") return Fault::Action::kKill;
  if (word == "stop") return Fault::Action::kStop;
  if (word == "hang") return Fault::Action::kHang;
  return std::nullopt;
}

}  // namespace

Fault parse_fault(const std::string& text) {
  const std::string_view all = text;
  const std::size_t first = all.find(':'), last = all.rfind(':');
  Fault fault;
  std::optional<int> rank, entry = 1;
  std::optional<Fault::Action> action;
  if (first != last) {  // two colons, so neither is npos
    std::string_view stage = all.substr(first + 1, last - first - 1);
    if (const std::size_t mark = stage.find('#'); mark != std::string_view::npos) {
      entry = whole_number(stage.substr(mark + 1));
      stage = stage.substr(0, mark);
    }
    fault.stage = stage;
    rank = whole_number(all.substr(0, first));
    action = action_of(all.substr(last + 1));
  }
  require(rank && entry && *entry > 0 && action && !fault.stage.empty(), ErrorKind::kUsage,
          fmt::format("TALLSKETCH_FAULT='{}' is not RANK:STAGE[#ENTRY]:ACTION, ACTION one of kill, stop, hang", text));
  fault.rank = *rank;
  fault.entry = *entry;
  fault.action = *action;
  return fault;
}

#if TALLSKETCH_FAULTS

void fault_point(int rank, const std::string& stage) {
  static const char* const text = std::getenv("TALLSKETCH_FAULT");
  if (text == nullptr) return;
  static const Fault fault = parse_fault(text);
  static int entries = 0;
  if (fault.rank != rank || fault.stage != stage || ++entries != fault.entry) return;
  std::fprintf(stderr, "tallsketch: fault injected: %s\n", text);
  switch (fault.action) {
    case Fault::Action::kKill: std::raise(SIGKILL); break;
    case Fault::Action::kStop: std::raise(SIGSTOP); break;
    case Fault::Action::kHang: std::this_thread::sleep_for(std::chrono::hours(24)); break;
  }
}

#else

void fault_point(int, const std::string&) {}

#endif

}  // namespace tallsketch
