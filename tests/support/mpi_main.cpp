// main() of every Catch2 test program, alone or under mpirun. Rank 0 reports; the other ranks keep their report and
// hand it over when they failed; the exit code is that of the worst rank. 77 means skipped (see requirement.h).
#define CATCH_CONFIG_RUNNER  // Catch2 2.x: this file holds the library
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#include <catch2/catch.hpp>
#endif
#include <mpi.h>

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/requirement.h"

namespace {

/// The arguments without reporter and output file, which belong to rank 0 alone.
std::vector<char*> without_reporter(int argc, char** argv) {
  std::vector<char*> kept;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-o" || argument == "--out" || argument == "-r" || argument == "--reporter") {
      ++i;  // and its value
    } else if (argument.rfind("--out=", 0) != 0 && argument.rfind("--reporter=", 0) != 0) {
      kept.push_back(argv[i]);
    }
  }
  return kept;
}

/// Runs the tests and returns Catch2's exit code, the number of failed tests or an error code.
int run_tests(std::vector<char*> arguments) {
  Catch::Session session;
  const int status = session.applyCommandLine(static_cast<int>(arguments.size()), arguments.data());
  return status != 0 ? status : session.run();
}

/// Prints on rank 0, in order of rank, the texts that ranks 1 ... size - 1 held back. Collective.
void print_reports_of_failed_ranks(int rank, int size, const std::string& text) {
  if (rank != 0) {
    MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    return;
  }
  for (int source = 1; source < size; ++source) {
    MPI_Status status;
    int length = 0;
    MPI_Probe(source, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string received(static_cast<std::size_t>(length), ' ');
    MPI_Recv(received.data(), length, MPI_CHAR, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (length > 0) std::cout << "==== rank " << source << " of " << size << " failed ====\n" << received;
  }
  std::cout.flush();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);

  const std::string missing = tallsketch::test::missing_requirement();
  int skip = missing.empty() ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &skip, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (skip != 0) {
    if (rank == 0) std::printf("skipped: %s\n", missing.empty() ? "another rank cannot run this" : missing.c_str());
    MPI_Finalize();
    return tallsketch::test::kSkipped;
  }

  std::ostringstream held;
  std::streambuf* const terminal = std::cout.rdbuf();
  if (rank != 0) std::cout.rdbuf(held.rdbuf());
  const int mine = run_tests(rank == 0 ? std::vector<char*>(argv, argv + argc) : without_reporter(argc, argv));
  std::cout.rdbuf(terminal);

  int worst = 0;
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (worst != 0) print_reports_of_failed_ranks(rank, size, mine != 0 ? held.str() : std::string());
  MPI_Finalize();
  return worst == 0 ? 0 : 1;
}
