// The host backend: threaded, vectorised kernels, MPI all-reduce, LAPACK QR.
#pragma once

#include <memory>

#include "src/backend.h"

namespace tallsketch {

std::unique_ptr<Backend> make_host_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer);

/// Threads of this rank: OMP_NUM_THREADS, else its share of the cores that it is bound to.
int host_threads(const Communicator& comm);

}  // namespace tallsketch
