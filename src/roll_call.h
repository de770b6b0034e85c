// RollCall: when a stage is overdue, the ranks tell rank 0 where each of them is, so that one message names who is missing.
// A rank that waits in a collective cannot know whom for. Used by the watchdogs, whose threads are awake while the work hangs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

namespace tallsketch {

class Communicator;

/// Where a rank is, in its own words.
struct Whereabouts {
  std::string stage;
  double idle = 0;       // seconds without progress in it
  bool waiting = false;  // for other ranks
};

/// "; no word from rank 2 on n1 (...); rank 3 on n2 works in stage 'read' without progress for 20 s": who keeps the others
/// waiting.
/// answers  of all ranks, rank 0's its own; nothing: no word
/// hosts    of all ranks
std::string absent_text(const std::vector<std::optional<Whereabouts>>& answers, const std::vector<std::string>& hosts);

class RollCall {
 public:
  /// Collective. Nobody is asked where MPI cannot be called by several threads, or with one rank.
  explicit RollCall(const Communicator& comm);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  bool is_asker() const { return rank_ == 0; }
  /// Rank 0, whose stage is overdue: what absent_text says, from what comes within `seconds`; ranks that answered then know
  /// that rank 0 tells, and end in silence.
  std::string ask(const Whereabouts& mine, double seconds) noexcept;
  /// Another rank whose stage is overdue. Returns whether rank 0 tells, within `seconds`.
  bool answer(const Whereabouts& mine, double seconds) noexcept;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;  // its own: the work may hang in the other one
  int rank_ = 0;
  std::vector<std::string> hosts_;  // rank 0
};

}  // namespace tallsketch
