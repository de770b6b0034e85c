// ReadAhead: a thread that fills chunk buffers from a RowSource while others are computed with. Made by row_pass for a pass.
// While it lives, its thread alone calls the source, so that a library that is not thread-safe (HDF5) sees one caller.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "src/backend.h"
#include "src/row_source.h"

namespace tallsketch {

class ReadAhead {
 public:
  explicit ReadAhead(RowSource& source);
  /// Waits for the read under way; what was asked for beyond it is not read.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Asks for the rows of a buffer, encoded as the source has them; the buffer is the reader's until it was awaited.
  void request(const ChunkBuffer& chunk);
  /// Waits for the oldest request. Errors: those of the source, once.
  void await();
  /// Spent reading, so far.
  double seconds() const;

 private:
  void read();

  RowSource& source_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ChunkBuffer> wanted_;
  std::size_t filled_ = 0;  // and not awaited yet
  std::exception_ptr failure_;
  double seconds_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tallsketch
