// Communicator: everything tallsketch asks of MPI, and how ranks agree on an error. The only file that includes mpi.h.
// Used by the solver, the plan's memory query, both backends' reductions. Collective functions say so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <mpi.h>

#include "src/error.h"

namespace tallsketch {

/// MPI_Init_thread and MPI_Finalize. One per process, made by the driver's main.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Throws Error{kCommunication} with MPI's text unless rc is MPI_SUCCESS.
void check_mpi(int rc, const char* what, std::source_location where = std::source_location::current());

/// Text of the MPI library, one line.
std::string mpi_library_version();

/// Whether several threads may call MPI at a time.
bool mpi_is_multithreaded();

class Communicator {
 public:
  /// Collective: ranks per node are found by a shared-memory split.
  explicit Communicator(MPI_Comm comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_root() const { return rank_ == 0; }
  int node_rank() const { return node_rank_; }  // among the ranks of this host
  int node_size() const { return node_size_; }
  int nodes() const { return nodes_; }
  const std::string& host() const { return host_; }
  MPI_Comm handle() const { return comm_; }

  /// While one lives, this rank waits for others. All collective functions below do; for others' that use the handle.
  class Waiting {
   public:
    explicit Waiting(const Communicator& comm) : count_(comm.waiting_) { ++count_; }
    ~Waiting() { --count_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::atomic<int>& count_;
  };
  /// Whether it does now. From any thread.
  bool is_waiting() const { return waiting_ > 0; }

  /// Collective: element-wise sum over ranks, in place. Same bits on every rank and in every run at fixed ranks.
  /// Limits: any count; sent in blocks of 2^27 elements, because MPI counts are 32-bit. Counts of reals are compared first.
  void sum(float* data, std::int64_t count) const;
  void sum(double* data, std::int64_t count) const;
  void sum(std::int64_t* data, std::int64_t count) const;
  /// Collective: the same for IEEE halves, by a reduction of our own, because MPI knows none; every partial sum is rounded
  /// to nearest.
  void sum_halves(std::uint16_t* data, std::int64_t count) const;
  /// Collective: element-wise maximum over ranks, in place.
  void max(float* data, std::int64_t count) const;
  void max(double* data, std::int64_t count) const;
  std::int64_t max(std::int64_t value) const;
  std::int64_t min(std::int64_t value) const;
  /// Collective. Errors: kInternal unless the count is the same on every rank: sums of others would hang, or mix up elements.
  void require_equal(std::int64_t count) const;
  /// Collective: every rank gets root's bytes.
  void broadcast(void* data, std::int64_t bytes) const;
  std::string broadcast(std::string text) const;
  /// Collective: root gets every rank's text or numbers in rank order; other ranks get an empty vector.
  std::vector<std::string> gather(const std::string& text) const;
  std::vector<double> gather(const std::vector<double>& values) const;
  /// Collective: every rank gets every rank's text or number.
  std::vector<std::string> all_gather(const std::string& text) const;
  std::vector<int> all_gather(int value) const;
  void barrier() const;

  /// Collective: runs the work, then all ranks learn whether any failed. If one did, all ranks throw the error of the
  /// lowest failing rank, its message marked with that rank and host, and agreed() is true. The work is local; it may
  /// hold one collective call only as its last step, which every rank reaches.
  void together(const std::function<void()>& work) const;
  /// Ends the whole job with the error's code and message. For what only this rank knows, when others may be waiting for
  /// it in a collective. Call it before any owner of a collective resource is destroyed. The others are told the code first, so that
  /// they end with it too and not with their answer to the launcher's TERM.
  [[noreturn]] void abort_alone(const Error& error) const;
  /// The exit code with which another rank ends the job alone, if one has said so. Not collective; for threads, where MPI allows
  /// several.
  std::optional<int> last_word() const;

 private:
  void agree(const std::optional<Error>& mine) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1, nodes_ = 1;
  std::string host_;
  mutable std::atomic<int> waiting_ = 0;  // of Waiting
};

}  // namespace tallsketch
