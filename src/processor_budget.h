// ProcessorBudget: so much processor time for each of several pieces of work, of a process that a signal ends beyond it.
// Used by hdf5_probe, for each file: one that has no end is told from many that take long together.
#pragma once

#include <sys/resource.h>

namespace tallsketch {

class ProcessorBudget {
 public:
  /// seconds  for a piece, and up to one more, because the system counts whole seconds
  explicit ProcessorBudget(rlim_t seconds);

  /// From now on, the next piece: what this process has used up to now does not count. The limit that the process was started
  /// with (ulimit -t) stays its limit, for all pieces together.
  void renew() const;

 private:
  rlim_t seconds_, inherited_ = RLIM_INFINITY;
};

/// User and system time of this process, or of one that has ended.
double processor_seconds(const rusage& usage);

}  // namespace tallsketch
