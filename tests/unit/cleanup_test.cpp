// How signals end a process, or wait. Each case is a process of its own, because that is what ends.
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "src/cleanup.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

constexpr int kWentOn = 11;

/// The exit code of a process that does this and then ends with kWentOn.
int code_of(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    end_cleanly_on_signals(false);
    work();
    ::_exit(kWentOn);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void wait_for_second_wish() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

/// With signals deferred; ends with kWentOn if it is still there, whatever was deferred.
int code_deferring(const std::function<void()>& work) {
  return code_of([&] {
    const DeferSignals deferring;
    work();
    ::_exit(kWentOn);
  });
}

}  // namespace

TEST_CASE("A signal ends the process with 75, at once or when nobody answered it") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    CHECK(code_of([=] { std::raise(signal); }) == 75);
    CHECK(code_of([=] {
            const DeferSignals deferring;
            std::raise(signal);
            if (DeferSignals::received() != signal) ::_exit(1);
          }) == 75);
    CHECK(code_deferring([=] { std::raise(signal); }) == kWentOn);
  }
  CHECK(code_of([] {}) == kWentOn);
}

TEST_CASE("While signals are deferred, a second INT or TERM ends the process, unless it is the first one's echo") {
  for (const int second : {SIGINT, SIGTERM}) {
    CHECK(code_deferring([=] {
            std::raise(SIGTERM);
            std::raise(second);
          }) == kWentOn);
    CHECK(code_deferring([=] {
            std::raise(SIGTERM);
            wait_for_second_wish();
            std::raise(second);
          }) == 75);
  }
  // USR1 asks for a checkpoint: a TERM that follows is the first wish to end.
  CHECK(code_deferring([] {
          std::raise(SIGUSR1);
          wait_for_second_wish();
          std::raise(SIGTERM);
          std::raise(SIGUSR1);
        }) == kWentOn);
}
