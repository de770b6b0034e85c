#include "src/fault.h"

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

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

constexpr std::array<std::pair<std::string_view, Fault::Action>, 9> kActions = {
    {{"kill", Fault::Action::kKill},
     {"stop", Fault::Action::kStop},
     {"hang", Fault::Action::kHang},
     {"alone", Fault::Action::kAlone},
     {"throw", Fault::Action::kThrow},
     {"oom", Fault::Action::kOom},
     {"short-read", Fault::Action::kShortRead},
     {"nan", Fault::Action::kNan},
     {"slow", Fault::Action::kSlow}}};

Fault::Action action_of(std::string_view word) {
  for (const auto& [name, action] : kActions) {
    if (name == word) return action;
  }
  return Fault::Action::kNone;
}

}  // namespace

Fault parse_fault(const std::string& text) {
  const std::string_view all = text;
  const std::size_t first = all.find(':'), last = all.rfind(':');
  Fault fault;
  std::optional<int> rank, entry = 1;
  if (first != last) {  // two colons, so neither is npos
    std::string_view stage = all.substr(first + 1, last - first - 1);
    if (const std::size_t mark = stage.find('#'); mark != std::string_view::npos) {
      entry = whole_number(stage.substr(mark + 1));
      stage = stage.substr(0, mark);
    }
    fault.stage = stage;
    rank = whole_number(all.substr(0, first));
    fault.action = action_of(all.substr(last + 1));
  }
  require(rank && entry && *entry > 0 && fault.action != Fault::Action::kNone && !fault.stage.empty(),
          ErrorKind::kUsage,
          fmt::format(
              "TALLSKETCH_FAULT='{}' is not RANK:STAGE[#ENTRY]:ACTION, ACTION one of kill, stop, hang, alone, throw, "
              "oom, short-read, nan, slow",
              text));
  fault.rank = *rank;
  fault.entry = *entry;
  return fault;
}

#if TALLSKETCH_FAULTS

namespace {

std::atomic<Fault::Action> armed = Fault::Action::kNone;

void tell() { std::fprintf(stderr, "tallsketch: fault injected: %s\n", std::getenv("TALLSKETCH_FAULT")); }

}  // namespace

void fault_at_stage(int rank, const std::string& stage) {
  static const char* const text = std::getenv("TALLSKETCH_FAULT");
  if (text == nullptr) return;
  static const Fault fault = parse_fault(text);
  static int entries = 0;
  if (fault.rank != rank || fault.stage != stage || ++entries != fault.entry) return;
  switch (fault.action) {
    case Fault::Action::kKill:
      tell();
      std::raise(SIGKILL);
      break;
    case Fault::Action::kStop:
      tell();
      std::raise(SIGSTOP);
      break;
    case Fault::Action::kHang:
      tell();
      std::this_thread::sleep_for(std::chrono::hours(24));
      break;
    case Fault::Action::kAlone: tell(); throw Error(ErrorKind::kCommunication, "a fault on purpose");
    default: armed = fault.action;
  }
}

bool fault_strikes(Fault::Action action) {
  if (armed.load(std::memory_order_relaxed) != action) return false;  // readers ask for every block, from all threads
  static std::atomic<bool> told = false;
  const bool lasts = action == Fault::Action::kNan || action == Fault::Action::kSlow;
  Fault::Action expected = action;
  if (!armed.compare_exchange_strong(expected, lasts ? action : Fault::Action::kNone)) return false;
  if (!told.exchange(true)) tell();
  return true;
}

#else

void fault_at_stage(int, const std::string&) {}
bool fault_strikes(Fault::Action) { return false; }

#endif

void fault_in_work() {
  if (fault_strikes(Fault::Action::kThrow)) throw std::runtime_error("a fault on purpose");
  if (fault_strikes(Fault::Action::kOom)) throw std::bad_alloc();
}

void fault_in_data(void* data, std::size_t bytes) {
  // All bits set are a NaN in every floating-point type, of either byte order.
  if (bytes > 0 && fault_strikes(Fault::Action::kNan)) std::memset(data, 0xFF, sizeof(double));
  if (bytes > 0 && fault_strikes(Fault::Action::kSlow)) std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

}  // namespace tallsketch
