// Faults on purpose, for tests of what follows: TALLSKETCH_FAULT=RANK:STAGE:ACTION, in builds with TALLSKETCH_FAULTS only.
// Called by the watchdog, to which every stage is announced.
#pragma once

#include <string>

namespace tallsketch {

/// What one fault is, from its text "1:reduce:kill" or "1:refine#3:hang" (the third time that the stage is entered).
struct Fault {
  enum class Action {
    kKill,  // SIGKILL: the process is gone, as by the kernel's out-of-memory killer
    kStop,  // SIGSTOP: no thread of it runs, as on a node that hangs
    kHang,  // this thread sleeps for ever, as on a file system that hangs
  };
  int rank = 0;
  std::string stage;
  int entry = 1;
  Action action = Action::kKill;
};

/// Errors  kUsage, naming the text
Fault parse_fault(const std::string& text);

/// Does what the environment's TALLSKETCH_FAULT says of this rank and stage, if anything; nothing in other builds. One thread.
void fault_point(int rank, const std::string& stage);

}  // namespace tallsketch
