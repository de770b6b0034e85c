// `bench reduce` on hosts, by MPI. Called by host_backend.
#pragma once

#include "src/reduce_timing.h"

namespace tallsketch {

/// Collective.
ReduceTiming time_host_reduce(const ReduceCase& timed, int repeats, const Communicator& comm);

}  // namespace tallsketch
