// Whether a study's rows, which every rank holds outside the plan of its solves, fit the host. Called by the study drivers.
#pragma once

#include <cstdint>

namespace tallsketch {

class Communicator;

/// bytes   that every rank will allocate for --rows m --cols n; floating-point, because 8 m n may leave 64 bits
/// Errors  kMemory where they exceed this rank's share of its node (host_memory_share); none where that is unknown
void require_study_memory(double bytes, std::int64_t m, std::int64_t n, const Communicator& comm);

}  // namespace tallsketch
