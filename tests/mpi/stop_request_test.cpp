// How ranks agree on a stop at chunk borders: at the same one, whatever numbers of borders they have, and without MPI where
// one rank is alone.
#include <cstdint>

#include "src/communicator.h"
#include "src/stop_request.h"
#include "tests/support/mpi_check.h"

using namespace tallsketch;

namespace {

int iallreduces = 0;

}  // namespace

/// Counts calls in the place of MPI's own, which has the name PMPI_Iallreduce, too.
extern "C" int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  iallreduces += 1;
  return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}

TEST_CASE("One rank alone agrees with itself without MPI, which need not allow several threads then") {
  const Communicator comm(MPI_COMM_SELF);
  const int before = iallreduces;
  for (const std::int64_t wish : {Wish::kGoOn, Wish::kSave, Wish::stop_by(15)}) {
    std::int64_t met = 0;
    Borders borders(comm, 4, [&] { return met == 1 ? wish : Wish::kGoOn; });
    std::int64_t agreed = Wish::kGoOn;
    for (; met < 4 && agreed == Wish::kGoOn; ++met) agreed = borders.next();
    MPI_REQUIRE(met == (wish == Wish::kGoOn ? 4 : 3));  // seen at the border after
    MPI_REQUIRE(borders.finish() == wish);
  }
  Borders left(comm, 4, [] { return Wish::kGoOn; });
  MPI_REQUIRE(left.next() == Wish::kGoOn);
  left.leave();
  MPI_REQUIRE(iallreduces == before);
}

TEST_CASE("Ranks with any numbers of borders agree on a wish at the same border, or on none") {
  const Communicator comm(MPI_COMM_WORLD);
  const std::int64_t mine = 3 + 2 * comm.rank(), most = 3 + 2 * (comm.size() - 1);
  {
    const int before = iallreduces;
    Borders borders(comm, most, [] { return Wish::kGoOn; });
    bool went_on = true;
    for (std::int64_t i = 0; i < mine; ++i) went_on = went_on && borders.next() == Wish::kGoOn;
    MPI_REQUIRE(borders.finish() == Wish::kGoOn);
    MPI_REQUIRE(went_on);
    MPI_REQUIRE((iallreduces > before) == (comm.size() > 1));
  }
  for (std::int64_t at = 0; at < most; ++at) {  // the last rank wants to stop at its border `at`
    std::int64_t met = 0;
    Borders borders(comm, most,
                    [&] { return comm.rank() == comm.size() - 1 && met >= at ? Wish::stop_by(15) : Wish::kGoOn; });
    std::int64_t agreed = Wish::kGoOn;
    for (; met < mine && agreed == Wish::kGoOn; ++met) agreed = borders.next();
    const bool saw = agreed != Wish::kGoOn;  // else it has no border left
    agreed = borders.finish();
    MPI_REQUIRE(agreed == Wish::stop_by(15));
    MPI_REQUIRE(Wish::stops(agreed) && Wish::signal(agreed) == 15);
    const std::int64_t latest = comm.max(saw ? met : 0);
    MPI_REQUIRE(!saw || met == latest);
  }
  for (std::int64_t at = 0; at <= most; ++at) {  // the last rank fails after `at` borders
    Borders borders(comm, most, [] { return Wish::kGoOn; });
    const bool fails = comm.rank() == comm.size() - 1;
    std::int64_t agreed = Wish::kGoOn;
    for (std::int64_t met = 0; met < mine && agreed == Wish::kGoOn && !(fails && met == at); ++met)
      agreed = borders.next();
    if (fails) {
      borders.leave();
    } else {
      agreed = borders.finish();
    }
    MPI_REQUIRE(fails || agreed == (at < most ? Wish::kLeave : Wish::kGoOn));
  }
}
