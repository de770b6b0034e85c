// Assertions on which all ranks agree before anybody leaves.
// Used by the tests under mpirun: a plain REQUIRE that fails on one rank leaves the others in their next collective.
#pragma once

#include <mpi.h>

#include "tests/support/catch.h"

namespace tallsketch::test {

/// True on all ranks if `mine` is true on every rank. Collective over MPI_COMM_WORLD.
inline bool all_ranks_agree(bool mine) {
  const int one = mine ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

}  // namespace tallsketch::test

/// REQUIRE for all ranks together: each rank records its own verdict, all leave the test case if one of them failed.
/// An exception thrown by the expression counts as a failure of that rank.
#define MPI_REQUIRE(...)                                                               \
  do {                                                                                 \
    bool mpi_require_mine = false;                                                     \
    try {                                                                              \
      mpi_require_mine = static_cast<bool>(__VA_ARGS__);                               \
    } catch (const std::exception& e) {                                                \
      UNSCOPED_INFO("threw: " << e.what());                                            \
    }                                                                                  \
    {                                                                                  \
      INFO("MPI_REQUIRE(" #__VA_ARGS__ ")");                                           \
      CHECK(mpi_require_mine);                                                         \
    }                                                                                  \
    if (!::tallsketch::test::all_ranks_agree(mpi_require_mine))                        \
      FAIL("stopped on all ranks: MPI_REQUIRE(" #__VA_ARGS__ ") failed on some rank"); \
  } while (false)
