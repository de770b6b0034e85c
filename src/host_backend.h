// The host backend: threaded, vectorised kernels, MPI all-reduce, LAPACK QR.
#pragma once

#include <memory>

#include "src/backend.h"

namespace tallsketch {

/// threads  of a rank; 0: host_threads(comm)
std::unique_ptr<Backend> make_host_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer,
                                           int threads = 0);

}  // namespace tallsketch
