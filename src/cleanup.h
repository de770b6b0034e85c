// Temporary files that must not outlive the process, whatever ends it: an error, a time-out, a signal.
// AtomicFile registers its temporary; the watchdog, Communicator::abort_alone and the signal handler remove what is left.
#pragma once

#include <string>

namespace tallsketch {

/// Remembers a path until forget_temporary. The one piece of global state: a signal handler has no other way to know.
void remember_temporary(const std::string& path);
void forget_temporary(const std::string& path);

/// Unlinks what is remembered. Safe in a signal handler.
void remove_temporaries();

/// INT, TERM, HUP and USR1 end the process with code 75 and, on rank 0, one message; nothing is left behind.
void end_cleanly_on_signals(bool is_root);

/// What the process is doing, for that message.
void note_stage(const std::string& name);

/// Whether there is a checkpoint to go on from, which that message then says.
void note_checkpoint(bool exists);

/// While one lives, such signals are kept for whoever asks; one that nobody answered ends the process with it. One at a time.
/// INT or TERM a second and more after INT or TERM ends the process at once, as without.
class DeferSignals {
 public:
  DeferSignals();
  ~DeferSignals();
  DeferSignals(const DeferSignals&) = delete;
  DeferSignals& operator=(const DeferSignals&) = delete;
  /// Number of the last one, 0 for none.
  static int received();
};

/// From now on such signals are ignored: the process is already ending, with a message of its own, while a launcher that
/// saw another rank end first sends TERM to the rest.
void ignore_ending_signals();

}  // namespace tallsketch
