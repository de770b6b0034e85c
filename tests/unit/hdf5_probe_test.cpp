// What a run makes of the end of its probe. Here scripts play the probe; the real one: cli/bad_files.py.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/error.h"
#include "src/hdf5_probe.h"
#include "tests/support/catch.h"
#include "tests/support/error_kind.h"
#include "tests/support/temporary_folder.h"

using namespace tallsketch;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Code and message of a run whose probe does what the lines say.
std::pair<int, std::string> after(const std::string& lines) {
  const TemporaryFolder folder;
  const std::string program = folder.at("probe");
  std::ofstream(program) << "#!/bin/sh\n" << lines << "\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return error_of([&] { probe_hdf5(program, {{"one.h5", {"/A", "/b"}}, {"two.h5", {"/A"}}}, false); });
}

}  // namespace

TEST_CASE("A probe that a signal ends names the file, and says what it was") {
  const auto [crash, of_crash] = after("printf ..; kill -SEGV $$");
  CHECK(crash == 3);
  CHECK((has(of_crash, "'two.h5' cannot be read: HDF5 ") && has(of_crash, "crashes on it (signal 11, ")));
  const auto [abort, of_abort] = after("printf .; kill -ABRT $$");
  CHECK(abort == 3);
  CHECK((has(of_abort, "'one.h5'") && has(of_abort, "signal 6, ")));
  const auto [loop, of_loop] = after("printf .; kill -XCPU $$");
  CHECK(loop == 3);
  CHECK((has(of_loop, "'one.h5'") && has(of_loop, "does not come to an end with it (60 s of processor time)")));
  const auto [failed, of_failure] = after("printf .; exit 1");
  CHECK(failed == 3);
  CHECK(has(of_failure, "fails on it (exit code 1)"));
  const auto [killed, of_kill] = after("printf .; kill -KILL $$");
  CHECK(killed == 7);
  CHECK((has(of_kill, "'one.h5'") && has(of_kill, "killed")));
}

TEST_CASE("A limit on processor time that the run itself has is not held against the file") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_CPU, &before) == 0);
  rlimit limit = before;
  limit.rlim_cur = 1;  // of this process, which waits, and inherited by the probe, which works
  REQUIRE(::setrlimit(RLIMIT_CPU, &limit) == 0);
  const auto [code, text] = after("printf .; while :; do :; done");
  ::setrlimit(RLIMIT_CPU, &before);
  CHECK(code == 3);
  CHECK((has(text, "'one.h5'") && has(text, "the 1 s of processor time") && has(text, "ulimit -t")));
}

TEST_CASE("In a program that ignores SIGCHLD the words of a probe are judged alone") {
  const auto before = std::signal(SIGCHLD, SIG_IGN);  // the system then tells nobody how a child ended
  const auto [crash, of_crash] = after("printf ..; kill -SEGV $$");
  const auto [failed, of_failure] = after("printf '.E\\003no dataset /A'");
  const int done = after("printf ..D").first, silent = after("exit 1").first;
  std::signal(SIGCHLD, before);
  CHECK(crash == 3);
  CHECK((has(of_crash, "'two.h5'") && has(of_crash, "ends without a word on it")));
  CHECK(failed == 3);
  CHECK(of_failure == "no dataset /A");
  CHECK(done == 0);
  CHECK(silent == 0);
}

TEST_CASE("The error of a probe is that of the run, whatever ends its process afterwards") {
  for (const std::string end : {"exit 0", "kill -SEGV $$"}) {
    const auto [code, text] = after("printf '.E\\003no dataset /A'; " + end);
    CHECK(code == 3);
    CHECK(text == "no dataset /A");
  }
}

TEST_CASE("A probe that ends well, says nothing or cannot be started is no error") {
  for (const std::string lines : {"printf ..D", "printf ..D; kill -SEGV $$", "exit 1", "kill -SEGV $$", "printf ."}) {
    INFO(lines);
    CHECK(after(lines).first == 0);
  }
  CHECK(error_of([] { probe_hdf5("", {{"none.h5", {"/A"}}}, false); }).first == 0);
  CHECK(error_of([] { probe_hdf5("/no/such/program", {{"none.h5", {"/A"}}}, false); }).first == 0);
}

TEST_CASE("A probe is told files, datasets and order of columns, and has no standard input or other descriptors") {
  const auto [code, text] = after(R"(printf '.E\003'; printf '%s|' "$@"; ls /proc/self/fd | tr '\n' ' '; cat)");
  CHECK(code == 3);
  CHECK(has(text, fmt::format("__open-hdf5|{}|rows|one.h5|2|/A|/b|two.h5|1|/A|0 1 2 3 ", ::getpid())));  // 3: of ls
  CHECK_FALSE(has(text, "4 "));
}

TEST_CASE("Whoever waits for the probe hears of each file as it comes to it, not at the end") {
  const TemporaryFolder folder;
  const std::string program = folder.at("probe"), mark = folder.at("mark");
  // Ends in an error unless the mark is made for the first file before it goes on to the second.
  std::ofstream(program) << "#!/bin/sh\nprintf .\nfor k in $(seq 500); do test -e '" << mark
                         << "' && { printf .D...; exit 0; }; sleep 0.02; done\nprintf 'E\\003nobody heard'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  int files = 0;
  const auto [code, text] = error_of([&] {
    probe_hdf5(program, {{"one.h5", {"/A"}}, {"two.h5", {"/A"}}}, false, [&] {
      ++files;
      std::ofstream(mark) << "heard";
    });
  });
  INFO(text);
  CHECK(code == 0);
  CHECK(files == 2);  // what comes behind the verdict is not a file
}

TEST_CASE("Many files are looked at by several processes, each of which may find something") {
  std::vector<ProbedFile> files(300, {"good.h5", {"/A"}});
  files.back().path = "last.h5";
  const TemporaryFolder folder;
  const std::string program = folder.at("probe");
  std::ofstream(program)
      << "#!/bin/sh\nfor word; do case $word in *.h5) printf .; test $word = last.h5 && kill -SEGV $$;; esac; done\n"
         "printf D\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const auto [code, text] = error_of([&] { probe_hdf5(program, files, true); });
  CHECK(code == 3);
  CHECK(has(text, "'last.h5'"));
}
