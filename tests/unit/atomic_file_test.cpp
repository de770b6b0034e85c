// A file appears whole or not at all; what the system refuses is told with its reason (C-10).
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/atomic_file.h"
#include "src/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// Files may hold at most so many bytes while this lives.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    previous_handler_ = std::signal(SIGXFSZ, SIG_IGN);  // as the program does
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limit{bytes, previous_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~SizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  rlimit previous_{};
  void (*previous_handler_)(int) = SIG_DFL;
};

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The message of the output error that f throws; "" if it throws none.
template <class F>
std::string output_error(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.exit_code() == 9);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A committed file is there whole, under its name only, readable as the umask says") {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.at("x"));
    CHECK(file.temporary() != folder.at("x"));
    file.write(bytes_of("world"), 6);
    file.write(bytes_of("hello "), 0);
    CHECK_FALSE(fs::exists(folder.at("x")));
    file.commit();
    CHECK(content(folder.at("x")) == "hello world");
  }
  CHECK(content(folder.at("x")) == "hello world");
  CHECK(folder.entries() == 1);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat info {};
  REQUIRE(::stat(folder.at("x").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777U) == (0666U & ~mask));
}

TEST_CASE("A file that is not committed leaves nothing, and what was there before stays") {
  const TemporaryFolder folder;
  write_file_atomically(folder.at("x"), bytes_of("old"));
  {
    AtomicFile file(folder.at("x"));
    file.write(bytes_of("new and longer"), 0);
    CHECK(folder.entries() == 2);
  }
  CHECK(content(folder.at("x")) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("An existing file is replaced as a whole, also by a shorter or empty one") {
  const TemporaryFolder folder;
  for (const std::string& text : {std::string("a long text"), std::string("short"), std::string()}) {
    write_file_atomically(folder.at("x"), bytes_of(text));
    CHECK(content(folder.at("x")) == text);
    CHECK(fs::file_size(folder.at("x")) == text.size());
    CHECK(folder.entries() == 1);
  }
}

TEST_CASE("A missing folder, a folder and a device are refused before anything is written") {
  const TemporaryFolder folder;
  CHECK_THAT(output_error([&] { AtomicFile(folder.at("none/x")); }),
             ContainsSubstring("none/x") && ContainsSubstring("No such file"));
  fs::create_directory(folder.at("d"));
  CHECK_THAT(output_error([&] { AtomicFile(folder.at("d")); }), ContainsSubstring("not a regular file"));
  CHECK_THAT(output_error([] { AtomicFile("/dev/null"); }),
             ContainsSubstring("/dev/null") && ContainsSubstring("not a regular file"));
  CHECK_THAT(output_error([&] { AtomicFile(folder.at(std::string(300, 'x'))); }),
             ContainsSubstring("File name too long"));
  CHECK(folder.entries() == 1);
}

TEST_CASE("A full disk is an error with the system's reason") {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) {
    WARN("left out: no /dev/full here");
    return;
  }
  CHECK_THAT(output_error([&] { write_fully(full, bytes_of("x"), 0, "some/name"); }),
             ContainsSubstring("some/name") && ContainsSubstring("No space left on device"));
  CHECK(output_error([&] { write_fully(full, {}, 0, "some/name"); }).empty());
  ::close(full);
}

TEST_CASE("The limit of the file size is an error with the system's reason and leaves nothing") {
  const TemporaryFolder folder;
  const SizeLimit limit(1024);
  CHECK(output_error([&] { write_file_atomically(folder.at("fits"), bytes_of(std::string(1024, 'x'))); }).empty());
  CHECK_THAT(output_error([&] { write_file_atomically(folder.at("x"), bytes_of(std::string(1025, 'x'))); }),
             ContainsSubstring(folder.at("x")) && ContainsSubstring("File too large"));
  CHECK_FALSE(fs::exists(folder.at("x")));
  CHECK(folder.entries() == 1);
}

TEST_CASE("Space is asked for before hours of work") {
  const TemporaryFolder folder;
  AtomicFile file(folder.at("x"));
  CHECK(output_error([&] { file.reserve(4096); }).empty());
  const SizeLimit limit(1024);
  CHECK_THAT(output_error([&] { file.reserve(1 << 20); }), ContainsSubstring("File too large"));
}

TEST_CASE("Writing to a closed descriptor is an error with the system's reason") {
  CHECK_THAT(output_error([] { write_fully(-1, bytes_of("x"), 0, "name"); }), ContainsSubstring("Bad file descriptor"));
}
