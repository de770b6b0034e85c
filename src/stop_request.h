// How ranks agree, in the middle of a pass, to stop or to save, although each is at another row and has another number of chunks:
// by a small all-reduce that is started at one chunk border and waited for at the next.
// Used by resumable_pass, and by refine_pass where there is a checkpoint. One rank alone calls no MPI for it.
#pragma once

#include <cstdint>
#include <functional>

#include "src/communicator.h"

namespace tallsketch {

/// What a rank asks for at a border; the largest of all ranks counts.
struct Wish {
  static constexpr std::int64_t kGoOn = 0, kSave = 1, kStop = 2, kLeave = 1000;
  /// kStop and the number of the signal, as one.
  static constexpr std::int64_t stop_by(int signal) { return kStop + signal; }
  static constexpr bool stops(std::int64_t wish) { return wish >= kStop && wish < kLeave; }
  static constexpr int signal(std::int64_t wish) { return static_cast<int>(wish - kStop); }
};

/// The borders of one pass, or of a part of it. All ranks make one, call `next` at each of their borders until it says
/// otherwise than kGoOn, then `finish`, or, with an error of their own, `leave`.
class Borders {
 public:
  /// most  borders of the rank that has most of them; the same on all ranks
  /// wish  what this rank wants now
  Borders(const Communicator& comm, std::int64_t most, std::function<std::int64_t()> wish);
  Borders(const Borders&) = delete;
  Borders& operator=(const Borders&) = delete;
  /// Waits for a request that an exception left behind; it cannot fail any more.
  ~Borders();

  /// What all ranks agreed on at the border before: all see it at the same one.
  std::int64_t next();
  /// Takes part until the last border of all ranks. Returns what was agreed on.
  std::int64_t finish();
  /// For a rank that failed: the others leave, too, and then agree on its error.
  void leave() noexcept;

 private:
  std::int64_t wait();
  void start(std::int64_t wish);

  const Communicator& comm_;
  std::int64_t most_, count_ = 0;
  std::function<std::int64_t()> wish_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::int64_t mine_ = 0, of_all_ = 0, agreed_ = 0;
};

}  // namespace tallsketch
