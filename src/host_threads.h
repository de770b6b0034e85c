// How many threads a rank has on the host. Asked by whatever starts some.
#pragma once

namespace tallsketch {

class Communicator;

/// Threads of this rank: OMP_NUM_THREADS, else its share of the cores that it is bound to.
int host_threads(const Communicator& comm);

}  // namespace tallsketch
