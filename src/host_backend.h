// The host backend: threaded, vectorised kernels, MPI all-reduce, LAPACK QR.
#pragma once

#include <memory>

#include "src/backend.h"

namespace tallsketch {

std::unique_ptr<Backend> make_host_backend(const RunOptions& options, const Communicator& comm, PhaseTimer& timer);

}  // namespace tallsketch
