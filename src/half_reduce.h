// `--reduce fp16`: the all-reduce of the sketch of A in halves, by column exponents that leave room for every rank.
// Called by the host backend, and by the CUDA backend where MPI reduces; its device twin is cuda_half_reduce.
#pragma once

#include <cstdint>
#include <vector>

namespace tallsketch {

class Communicator;

/// Exponents e such that 2^e[j] times column j, rounded to half, sums over `ranks` ranks without overflow.
/// largest  (n) largest magnitude of each column over all ranks; a column of zeros or not finite gets exponent 0
std::vector<int> half_reduce_exponents(const std::vector<double>& largest, int ranks);

/// Collective: replaces `largest` by its maximum over ranks and returns 2^e[j] for each column.
std::vector<double> agree_on_half_factors(const Communicator& comm, std::vector<double>& largest);

/// Collective: sums sketches over ranks, in place; the n columns of A in halves, the r of b in FP32.
/// sketch  in/out (d, n + r) row-major; nothing changes on one rank
/// Order   MPI's; every partial sum is rounded to half. Same bits on every rank and in every run at fixed ranks
/// Errors  (of numbers) 2^-11 of each partial sum; elements below 2^-28 * ranks of their column's largest lose digits
/// Cost    2 d n + 4 d r bytes sent where FP32 sends 4 d (n + r)
void sum_in_halves(const Communicator& comm, std::vector<float>& sketch, std::int64_t d, std::int64_t n,
                   std::int64_t r);

}  // namespace tallsketch
