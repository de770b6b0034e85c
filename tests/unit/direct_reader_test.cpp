// Positioned reads by threads: any pieces, any number of threads; a file that ends too early is an error, never zeros.
#include "src/direct_reader.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "src/error.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kBytes = 100003;

std::byte byte_at(std::int64_t k) { return static_cast<std::byte>((k * 7 + k / 256) & 0xff); }

class SomeFile {
 public:
  SomeFile() {
    path_ = (std::filesystem::temp_directory_path() / ("tallsketch-direct-" + std::to_string(::getpid()))).string();
    std::ofstream file(path_, std::ios::binary);
    for (std::int64_t k = 0; k < kBytes; ++k) file.put(static_cast<char>(byte_at(k)));
  }
  ~SomeFile() { std::filesystem::remove(path_); }
  SomeFile(const SomeFile&) = delete;
  SomeFile& operator=(const SomeFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Sets the bytes of a system call while it lives.
class BlockBytes {
 public:
  explicit BlockBytes(std::int64_t bytes) : previous_(DirectReader::block_bytes) { DirectReader::block_bytes = bytes; }
  ~BlockBytes() { DirectReader::block_bytes = previous_; }
  BlockBytes(const BlockBytes&) = delete;
  BlockBytes& operator=(const BlockBytes&) = delete;

 private:
  std::int64_t previous_;
};

void check_read(const DirectReader& reader, const StridedBytes& pieces) {
  constexpr std::byte kUntouched{0xa5};
  std::vector<std::byte> out(static_cast<std::size_t>((pieces.count + 1) * (pieces.pitch + pieces.bytes) + 1),
                             kUntouched);
  std::vector<std::byte> expected = out;
  for (std::int64_t k = 0; k < pieces.count; ++k) {
    for (std::int64_t i = 0; i < pieces.bytes; ++i) {
      expected[static_cast<std::size_t>(k * pieces.pitch + i)] = byte_at(pieces.offset + k * pieces.stride + i);
    }
  }
  reader.read(pieces, out.data());
  INFO(pieces.count << " pieces of " << pieces.bytes << " bytes from " << pieces.offset);
  CHECK((out == expected));
}

std::string message_of(const DirectReader& reader, const StridedBytes& pieces) {
  std::vector<std::byte> out(static_cast<std::size_t>(pieces.bytes * pieces.count));
  try {
    reader.read(pieces, out.data());
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Pieces of every length, by one thread and several, in blocks of every length") {
  const SomeFile file;
  for (const std::int64_t block : {std::int64_t{1} << 20, std::int64_t{4096}, std::int64_t{1000}, std::int64_t{17}}) {
    const BlockBytes limit(block);
    for (const int threads : {1, 2, 5}) {
      const DirectReader reader(file.path(), std::make_shared<ReadTeam>(threads));
      CHECK(reader.threads() == threads);
      check_read(reader, {0, 0, kBytes, 1, 0});
      check_read(reader, {kBytes - 1, 0, 1, 1, 0});
      check_read(reader, {5, 0, 0, 1, 0});
      check_read(reader, {5, 100, 7, 0, 7});
      check_read(reader, {3, 1000, 40, 100, 40});  // dense in memory
      check_read(reader, {3, 1000, 40, 100, 64});  // with gaps
      check_read(reader, {0, 20000, 9001, 5, 9001});
    }
  }
}

TEST_CASE("A file that ends too early is an error that says where; so is a descriptor that cannot be read") {
  const SomeFile file;
  const BlockBytes limit(1000);
  for (const int threads : {1, 3}) {
    const DirectReader reader(file.path(), std::make_shared<ReadTeam>(threads));
    CHECK_THAT(message_of(reader, {0, 0, kBytes + 1, 1, 0}),
               Catch::Matchers::ContainsSubstring("ends at byte " + std::to_string(kBytes)));
    CHECK(message_of(reader, {0, 0, kBytes, 1, 0}) == "no error");
    std::filesystem::resize_file(file.path(), 50000);
    CHECK_THAT(message_of(reader, {40000, 0, 20000, 1, 0}), Catch::Matchers::ContainsSubstring("shortened"));
    std::filesystem::resize_file(file.path(), kBytes);
  }
  const DirectReader folder(std::filesystem::temp_directory_path().string(), std::make_shared<ReadTeam>(2));
  CHECK_THAT(message_of(folder, {0, 0, 10, 1, 0}), Catch::Matchers::ContainsSubstring("directory"));
  CHECK_THROWS_AS(DirectReader(file.path() + ".none", std::make_shared<ReadTeam>(1)), Error);
}

TEST_CASE("A team shares tasks out again and again, with no more members than it was asked for") {
  ReadTeam team(4);
  for (int round = 0; round < 300; ++round) {
    const int members = round % 7;  // more than there are, too
    std::atomic<int> next{0}, done{0};
    std::vector<std::atomic<int>> calls(8);
    team.run(members, [&](int member) {
      ++calls[static_cast<std::size_t>(member)];
      while (next++ < 50) ++done;
    });
    CHECK(done == 50);
    CHECK(calls[0] == 1);
    for (int k = 1; k < 8; ++k) CHECK(calls[static_cast<std::size_t>(k)] <= (k < std::min(members, 4) ? 1 : 0));
  }
}
