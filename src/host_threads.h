// How many threads a rank has on the host. Asked by whatever starts some.
#pragma once

namespace tallsketch {

class Communicator;

/// OMP_NUM_THREADS or what stands for it, but no more than there are cores: a team of 100 000 ends the process. For parallel
/// regions of sources, which know no communicator and run on any thread.
int team_size();

/// Threads of this rank: OMP_NUM_THREADS, else its share of the cores that it is bound to.
int host_threads(const Communicator& comm);

}  // namespace tallsketch
