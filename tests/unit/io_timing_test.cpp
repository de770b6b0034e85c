// What bench io times: plain reads that cover every byte once, in the order of the files, and their errors.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "src/error.h"
#include "src/io_timing.h"
#include "src/synthetic_source.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/temporary_folder.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string write_file(const std::string& path, std::size_t bytes, std::size_t first) {
  std::ofstream file(path, std::ios::binary);
  for (std::size_t k = 0; k < bytes; ++k) file.put(static_cast<char>((first + k) * 7 % 251));
  return path;
}

SyntheticSource small_source() {
  SyntheticProblem problem;
  problem.kind = SyntheticKind::kUniform;
  problem.m = 1000;
  problem.n = 3;
  return SyntheticSource(problem, 1);
}

}  // namespace

TEST_CASE("Plain reads of all ranks and threads cover the bytes of all files once, in order") {
  const TemporaryFolder folder;
  const std::vector<std::string> files = {write_file(folder.at("a"), 1000, 0), write_file(folder.at("b"), 0, 1000),
                                          write_file(folder.at("c"), 37, 1000)};
  CHECK(file_bytes(files) == 1037);
  CHECK(file_bytes({}) == 0);
  const SyntheticSource source = small_source();
  for (const int ranks : {1, 2, 3}) {
    for (const int threads : {1, 2, 5}) {
      CAPTURE(ranks, threads);
      std::vector<int> seen;
      const std::int64_t parts = ranks * threads, part = 1037 / parts;
      bool same = true;
      for (int rank = 0; rank < ranks; ++rank) {
        ChunkBuffers buffers(source, 500, 2);  // 2 chunks of 6000 bytes: room for the part of every thread
        const std::int64_t room = buffers.a.bytes() / threads;
        CHECK(pread_seconds(files, rank, ranks, threads, buffers) >= 0);
        for (int thread = 0; thread < threads; ++thread) {
          const std::int64_t begin = part * (rank * threads + thread);
          const std::int64_t end = rank * threads + thread + 1 == parts ? 1037 : begin + part;
          for (std::int64_t k = begin; k < end; ++k) {
            const auto byte = static_cast<int>(buffers.a.data()[thread * room + k - begin]);
            same = same && byte == k * 7 % 251;
          }
        }
      }
      CHECK(same);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("Where threads cannot be started those that can read every part") {
  constexpr int kThreads = 64;
  const TemporaryFolder folder;
  const std::string file = write_file(folder.at("threads"), 64 * 30, 0);
  const SyntheticSource source = small_source();
  ChunkBuffers buffers(source, 500, 1);  // room for the part of every thread
  const std::int64_t room = buffers.a.bytes() / kThreads;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    REQUIRE(statm >> pages);
    rlimit tight = before;
    tight.rlim_cur = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{4} << 20);  // not a stack more
    REQUIRE(::setrlimit(RLIMIT_AS, &tight) == 0);
  }
  bool started_all = true;
  try {
    std::vector<std::thread> others;
    others.reserve(kThreads);
    const auto join = [&] {
      for (std::thread& other : others) other.join();
    };
    try {
      for (int k = 1; k < kThreads; ++k)
        others.emplace_back([] { std::this_thread::sleep_for(std::chrono::seconds(1)); });
    } catch (...) {
      join();
      throw;
    }
    join();
  } catch (const std::system_error&) {
    started_all = false;
  }
  const double seconds = pread_seconds({file}, 0, 1, kThreads, buffers);
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK_FALSE(started_all);  // else this shows nothing
  CHECK(seconds >= 0);
  bool same = true;
  for (int k = 0; k < 64 * 30; ++k) {
    same = same && static_cast<int>(buffers.a.data()[k / 30 * room + k % 30]) == k * 7 % 251;
  }
  CHECK(same);
}
#endif

TEST_CASE("A part larger than its buffer is read to its end, over what was read before") {
  const TemporaryFolder folder;
  const std::string file = write_file(folder.at("large"), 1000, 0);
  const SyntheticSource source = small_source();
  ChunkBuffers buffers(source, 1, 1);  // 12 bytes
  CHECK(pread_seconds({file}, 0, 1, 1, buffers) >= 0);
  for (int k = 0; k < 12; ++k) {
    const int last = k < 1000 % 12 ? 996 + k : 984 + k;  // 83 rounds and four bytes
    CHECK(static_cast<int>(buffers.a.data()[k]) == last * 7 % 251);
  }
}

TEST_CASE("Files that cannot be read are named, wherever they stand among the others") {
  const TemporaryFolder folder;
  const SyntheticSource source = small_source();
  ChunkBuffers buffers(source, 10, 2);
  const std::string whole = write_file(folder.at("whole"), 10, 0), missing = folder.at("missing");
  std::filesystem::create_directory(folder.at("folder"));
  // A folder can be opened: it fails later than what is not there.
  for (const std::string& bad : {missing, folder.at("folder")}) {
    for (const std::vector<std::string>& files : {std::vector{bad}, std::vector{whole, bad}, std::vector{bad, whole}}) {
      const auto [code, message] = error_of([&] { pread_seconds(files, 0, 1, 2, buffers); });
      CHECK(code == 3);
      CHECK_THAT(message, ContainsSubstring("'" + bad + "'"));
    }
  }
  const auto [code, message] = error_of([&] { file_bytes({whole, missing}); });
  CHECK(code == 3);
  CHECK_THAT(message, ContainsSubstring("'" + missing + "'"));
}

TEST_CASE("Rows are read and decoded to the last, also none") {
  SyntheticSource source = small_source(), again = small_source();
  ChunkBuffers buffers(source, 300, 4);
  CHECK(read_seconds(source, {0, 1000}, buffers) >= 0);
  std::vector<float> expected(3 * 1000);
  std::vector<double> b(1000);
  again.read({0, 1000}, expected.data(), b.data());
  const auto* read = reinterpret_cast<const float*>(buffers.a.data());
  CHECK(std::vector<float>(read, read + 3000) == expected);  // four lanes, four chunks
  CHECK(decode_seconds(source, {0, 1000}, 1, buffers) >= 0);
  CHECK(read_seconds(source, {5, 5}, buffers) >= 0);
  CHECK(decode_seconds(source, {5, 5}, 1, buffers) >= 0);
}
