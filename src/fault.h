// Faults on purpose, for tests of what follows: TALLSKETCH_FAULT=RANK:STAGE:ACTION, in builds with TALLSKETCH_FAULTS only.
// The watchdog, to which every stage is announced, says where a rank is; what breaks inside a stage asks whether it should.
#pragma once

#include <cstddef>
#include <string>

namespace tallsketch {

/// What one fault is, from its text "1:reduce:kill" or "1:refine#3:hang" (the third time that the stage is entered).
struct Fault {
  enum class Action {
    kNone,
    // As the stage begins:
    kKill,   // SIGKILL: the process is gone, as by the kernel's out-of-memory killer
    kStop,   // SIGSTOP: no thread of it runs, as on a node that hangs
    kHang,   // this thread sleeps for ever, as on a file system that hangs
    kAlone,  // an error that this rank alone knows of, while the others go on: NCCL's are such
    // At the next chance from there on:
    kThrow,      // work that ranks agree about fails, with an exception that nobody foresaw
    kOom,        // the same, out of host memory
    kShortRead,  // a file ends too early
    // From there on:
    kNan,   // what is read begins with NaN
    kSlow,  // every read takes half a second
  };
  int rank = 0;
  std::string stage;
  int entry = 1;
  Action action = Action::kNone;
};

/// Errors  kUsage, naming the text
Fault parse_fault(const std::string& text);

/// Does what the environment's TALLSKETCH_FAULT says of this rank and stage, if anything; nothing in other builds. One thread.
void fault_at_stage(int rank, const std::string& stage);

/// Whether a fault of this kind is to happen here and now; once, but for those that last. From any thread.
bool fault_strikes(Fault::Action action);

/// Throws if it is kThrow or kOom that is to happen.
void fault_in_work();

/// Spoils or delays what was just read, if that is to happen. data  of at least 8 bytes, or of none
void fault_in_data(void* data, std::size_t bytes);

}  // namespace tallsketch
