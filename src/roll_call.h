// RollCall: when a stage is overdue on a rank, rank 0 asks all ranks where they are, so that a job in which somebody still works
// goes on, and of one in which nobody does, one message names who is missing: a rank that waits in a collective cannot know whom
// for. Used by the watchdogs, in a thread that is awake while the work hangs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "src/communicator.h"

namespace tallsketch {

/// Where a rank is, in its own words.
struct Whereabouts {
  std::string stage;
  double idle = 0;       // seconds without progress in it
  bool waiting = false;  // for other ranks
  bool alive = false;    // at work and not overdue, or with progress of late: others may well wait for it
};

/// Whether nobody is missing, and somebody is alive.
/// answers  of all ranks, rank 0's its own; nothing: no word
bool may_go_on(const std::vector<std::optional<Whereabouts>>& answers);

/// "; no word from rank 2 on n1 (...); rank 3 on n2 works in stage 'read' without progress for 20 s": who keeps the others
/// waiting.
std::string absent_text(const std::vector<std::optional<Whereabouts>>& answers, const std::vector<std::string>& hosts);

/// One thread a rank uses it. Errors of MPI count as silence: what follows is a rank's own time-out.
class RollCall {
 public:
  enum class Verdict : std::int64_t { kNone, kGoOn, kEnd };

  /// Collective.
  explicit RollCall(const Communicator& comm);
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  /// Whether MPI can be called by several threads.
  static bool is_possible();

  bool is_caller() const { return rank_ == 0; }
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// Rank 0: whether a rank has asked for a roll call since the last one.
  bool is_asked_for();
  /// Rank 0: where all ranks are; those that do not say so within `seconds` are silent.
  std::vector<std::optional<Whereabouts>> call(const Whereabouts& mine, double seconds);
  /// Rank 0: what follows from it, to all ranks.
  void announce(Verdict verdict);

  /// Other ranks: asks rank 0 for a roll call.
  void ask_for();
  /// Other ranks, often: answers a roll call, if there is one. Returns what rank 0 has announced, if anything.
  Verdict listen(const Whereabouts& mine);

 private:
  /// An answer on its way: small enough that MPI sends it without waiting for a receiver.
  struct Answer {
    std::int64_t round = 0, waiting = 0, alive = 0;
    double idle = 0;
    std::array<char, 48> stage{};
  };
  /// One that was sent: its bytes stay until MPI has taken them, for ever where the receiver is lost.
  struct Letter {
    std::array<std::byte, 96> bytes{};
    MPI_Request request = MPI_REQUEST_NULL;
  };
  template <class T>
  void send(const T& message, int rank, int tag);
  template <class T>
  std::optional<T> received(int rank, int tag, int* source = nullptr);

  MPI_Comm comm_ = MPI_COMM_NULL;  // its own: the work may hang in the other one
  int rank_ = 0, size_ = 1;
  std::int64_t round_ = 0;  // of the last roll call; an answer to an earlier one is late
  std::list<Letter> letters_;
  std::vector<std::string> hosts_;  // rank 0
};

}  // namespace tallsketch
