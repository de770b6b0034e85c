// The communicator: reductions, gathers and broadcasts by value, and one error for all ranks.
// Not covered: the splitting of messages above 2^27 elements, which needs more memory than a test may take (the limit
// is no parameter); the arithmetic of such splits is tested in unit.plan.
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/error.h"
#include "tests/support/error_kind.h"
#include "tests/support/mpi_check.h"

using namespace tallsketch;

namespace {

/// What together() threw here: kind 0 and no message without an error.
std::pair<int, std::string> outcome(const Communicator& comm, const std::function<void()>& work) {
  return error_of([&] { comm.together(work); });
}

}  // namespace

TEST_CASE("Rank, size, node and host agree with MPI") {
  const Communicator comm(MPI_COMM_WORLD);
  int rank = -1, size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_REQUIRE(comm.rank() == rank);
  MPI_REQUIRE(comm.size() == size);
  MPI_REQUIRE(comm.is_root() == (rank == 0));
  MPI_REQUIRE(comm.nodes() == 1);  // CTest runs on one host
  MPI_REQUIRE(comm.node_rank() == rank);
  MPI_REQUIRE(comm.node_size() == size);
  MPI_REQUIRE(!comm.host().empty());
  int compared = MPI_UNEQUAL;
  MPI_Comm_compare(comm.handle(), MPI_COMM_WORLD, &compared);
  MPI_REQUIRE(compared == MPI_CONGRUENT);  // of its own: no message of the test can meet one of tallsketch
}

TEST_CASE("Sums, minima and maxima run over all ranks, in every type and for counts 0, 1 and odd") {
  const Communicator comm(MPI_COMM_WORLD);
  const int p = comm.size();
  const int triangle = p * (p + 1) / 2;  // sum of rank + 1
  for (const std::int64_t count : {0, 1, 7, 10001}) {
    std::vector<float> f(static_cast<std::size_t>(count)), largest(f.size());
    std::vector<double> d(f.size()), largest_double(f.size());
    std::vector<std::int64_t> i(f.size());
    for (std::size_t k = 0; k < f.size(); ++k) {
      f[k] = static_cast<float>((comm.rank() + 1) * static_cast<int>(k % 100));
      d[k] = 1e10 * f[k];
      i[k] = (std::int64_t{1} << 40) * (comm.rank() + 1) + static_cast<std::int64_t>(k);
      largest[k] = static_cast<float>(k % 2 == 0 ? comm.rank() : -comm.rank());
      largest_double[k] = 1e300 * largest[k];
    }
    comm.sum(f.data(), count);
    comm.sum(d.data(), count);
    comm.sum(i.data(), count);
    comm.max(largest.data(), count);
    comm.max(largest_double.data(), count);
    bool right = true;
    for (std::size_t k = 0; k < f.size(); ++k) {
      const auto expected = static_cast<float>(triangle * static_cast<int>(k % 100));
      right = right && f[k] == expected && d[k] == 1e10 * expected &&
              i[k] == (std::int64_t{1} << 40) * triangle + p * static_cast<std::int64_t>(k) &&
              largest[k] == (k % 2 == 0 ? static_cast<float>(p - 1) : 0.0F) && largest_double[k] == 1e300 * largest[k];
    }
    INFO("count " << count);
    MPI_REQUIRE(right);
  }
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  MPI_REQUIRE(comm.max(std::int64_t{comm.rank()} - 5) == p - 6);
  MPI_REQUIRE(comm.min(std::int64_t{-comm.rank()}) == 1 - p);
  MPI_REQUIRE(comm.min(comm.is_root() ? std::int64_t{3} : huge) == 3);
}

TEST_CASE("Halves are summed in halves: exact while they can be, rounded to even, infinite beyond") {
  const Communicator comm(MPI_COMM_WORLD);
  const auto ranks = static_cast<float>(comm.size());
  const float mine = static_cast<float>(comm.rank() + 1);
  std::vector<std::uint16_t> data;
  for (int k = 0; k < 1000; ++k) data.push_back(float_to_half(mine * static_cast<float>(k % 100)));
  data.push_back(float_to_half(comm.is_root() ? 2048.0F : 0.5F));  // a half less than the gap of 2
  data.push_back(float_to_half(40000.0F));
  comm.sum_halves(data.data(), static_cast<std::int64_t>(data.size()));
  const float triangle = ranks * (ranks + 1) / 2;
  bool equal = true;
  for (int k = 0; k < 1000; ++k) {
    equal = equal && half_to_float(data[static_cast<std::size_t>(k)]) == triangle * static_cast<float>(k % 100);
  }
  MPI_REQUIRE(equal);
  const float rounded = half_to_float(data[1000]);
  MPI_REQUIRE((rounded == 2048.0F || (comm.size() == 4 && rounded == 2050.0F)));  // three halves first: 1.5
  MPI_REQUIRE(std::isinf(half_to_float(data[1001])) == (comm.size() > 1));
  comm.sum_halves(nullptr, 0);
}

TEST_CASE("A sum of floats has the same bits on every rank and in a second run") {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<float> first(5000);
  for (std::size_t k = 0; k < first.size(); ++k) {
    first[k] = std::sin(static_cast<float>(k) * 1.7F + static_cast<float>(comm.rank())) * 1e3F;
  }
  std::vector<float> second = first;
  comm.sum(first.data(), 5000);
  comm.sum(second.data(), 5000);
  MPI_REQUIRE(first == second);
  std::vector<float> of_root = first;
  comm.broadcast(of_root.data(), static_cast<std::int64_t>(of_root.size() * sizeof(float)));
  MPI_REQUIRE(first == of_root);
}

TEST_CASE("Counts that differ between ranks are refused on every rank, not summed and not hung (C-16)") {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.size() == 1) {
    WARN("one rank: counts cannot differ");
    return;
  }
  std::vector<float> data(100, 1.0F);
  const auto [code, message] = error_of([&] { comm.sum(data.data(), comm.is_root() ? 100 : 99); });
  INFO(message);
  MPI_REQUIRE(code == 1);
  MPI_REQUIRE(message.find("99 to 100") != std::string::npos);
  MPI_REQUIRE(std::all_of(data.begin(), data.end(), [](float v) { return v == 1.0F; }));
  comm.sum(data.data(), 100);  // and the communicator still works
  MPI_REQUIRE(data[99] == static_cast<float>(comm.size()));
}

TEST_CASE("Texts, bytes and numbers reach root or all in rank order, empty ones too") {
  const Communicator comm(MPI_COMM_WORLD);
  const auto rank = static_cast<std::size_t>(comm.rank());
  const auto size = static_cast<std::size_t>(comm.size());
  const std::string mine = std::string(rank * 3, static_cast<char>('a' + comm.rank()));  // "" on rank 0
  const std::vector<std::string> all = comm.all_gather(mine);
  bool right = all.size() == size;
  for (std::size_t k = 0; right && k < size; ++k) right = all[k] == std::string(k * 3, static_cast<char>('a' + k));
  MPI_REQUIRE(right);
  const std::vector<std::string> at_root = comm.gather(mine);
  MPI_REQUIRE(at_root.size() == (comm.is_root() ? size : 0));
  MPI_REQUIRE(!comm.is_root() || at_root == all);
  const std::vector<double> numbers = comm.gather(std::vector<double>{1.0 * comm.rank(), 0.5});
  MPI_REQUIRE(numbers.size() == (comm.is_root() ? 2 * size : 0));
  MPI_REQUIRE(!comm.is_root() || (numbers[2 * size - 2] == static_cast<double>(size - 1) && numbers.back() == 0.5));
  MPI_REQUIRE(comm.broadcast(comm.is_root() ? std::string("from root\n\0x", 12) : std::string("other")) ==
              std::string("from root\n\0x", 12));
  MPI_REQUIRE(comm.broadcast(comm.is_root() ? std::string() : std::string("other")).empty());
  std::int64_t number = comm.is_root() ? 42 : 0;
  comm.broadcast(&number, sizeof number);
  MPI_REQUIRE(number == 42);
  comm.broadcast(&number, 0);
  comm.barrier();
}

TEST_CASE("Work that succeeds everywhere runs once on each rank and throws nowhere") {
  const Communicator comm(MPI_COMM_WORLD);
  int calls = 0;
  MPI_REQUIRE(outcome(comm, [&] { ++calls; }).first == 0);
  MPI_REQUIRE(calls == 1);
}

TEST_CASE("The error of any one rank reaches all, with its kind, text, rank and host") {
  const Communicator comm(MPI_COMM_WORLD);
  for (int failing = 0; failing < comm.size(); ++failing) {
    for (const ErrorKind kind : {ErrorKind::kInput, ErrorKind::kOutput, ErrorKind::kRankDeficient}) {
      const auto [code, message] = outcome(comm, [&] {
        require(comm.rank() != failing, kind, "cannot read 'x': reason of rank " + std::to_string(comm.rank()));
      });
      INFO("rank " << failing << ": " << message);
      MPI_REQUIRE(code == static_cast<int>(kind));
      const std::string mark = comm.size() == 1 ? "" : " [rank " + std::to_string(failing) + " on " + comm.host() + "]";
      MPI_REQUIRE(message == "cannot read 'x': reason of rank " + std::to_string(failing) + mark);
    }
  }
}

TEST_CASE("Of several errors that of the lowest rank is told, whatever the others were") {
  const Communicator comm(MPI_COMM_WORLD);
  const int lowest = comm.size() / 2;
  const auto [code, message] = outcome(comm, [&] {
    if (comm.rank() == lowest) throw Error(ErrorKind::kNonFinite, "lowest");
    if (comm.rank() > lowest) throw Error(ErrorKind::kOutput, std::string(5000, 'x'));
  });
  INFO(message);
  MPI_REQUIRE(code == 4);
  MPI_REQUIRE(message.rfind("lowest", 0) == 0);
}

TEST_CASE("Exceptions of the library become errors of a kind: memory and threads 7, the rest internal 1") {
  const Communicator comm(MPI_COMM_WORLD);
  const bool last = comm.rank() == comm.size() - 1;
  const auto memory = outcome(comm, [&] {
    if (last) throw std::bad_alloc();
  });
  MPI_REQUIRE(memory.first == 7);
  MPI_REQUIRE(memory.second.find("memory") != std::string::npos);
  const auto thread = outcome(comm, [&] {
    if (last) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  MPI_REQUIRE(thread.first == 7);
  MPI_REQUIRE(thread.second.find("ulimit -v") != std::string::npos);
  const auto other = outcome(comm, [&] {
    if (last) throw std::out_of_range("index 5");
  });
  MPI_REQUIRE(other.first == 1);
  MPI_REQUIRE(other.second.find("index 5") != std::string::npos);
}

TEST_CASE("An error of MPI is a communication error with its text, not an abort") {
  const Communicator comm(MPI_COMM_WORLD);
  const auto [code, message] =
      error_of([&] { check_mpi(MPI_Bcast(nullptr, 1, MPI_INT, comm.size() + 3, comm.handle()), "MPI_Bcast"); });
  INFO(message);
  MPI_REQUIRE(code == 8);
  MPI_REQUIRE(message.find("MPI_Bcast failed: ") == 0);
  check_mpi(MPI_SUCCESS, "nothing");
  MPI_REQUIRE(!mpi_library_version().empty());
  MPI_REQUIRE(mpi_library_version().find('\n') == std::string::npos);
}
