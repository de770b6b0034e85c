// The watchdog ends the process with code 8 and one message; so each case runs in a child process.
#include <chrono>
#include <functional>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "src/watchdog.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

/// Exit code of a child that runs f, and the seconds it took.
std::pair<int, double> in_child(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, seconds};
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

TEST_CASE("A stage without progress ends the process with code 8 soon after its time") {
  const auto [code, seconds] = in_child([] {
    Watchdog watchdog(0.3, "test");
    watchdog.enter("stuck");
    sleep_ms(20000);
  });
  CHECK(code == 8);
  CHECK(seconds < 10);
}

TEST_CASE("An earlier deadline counts although the watchdog sleeps for a later one") {
  const auto [code, seconds] = in_child([] {
    Watchdog watchdog(0.3, "test");
    watchdog.enter("long", 1000);
    sleep_ms(100);
    watchdog.enter("short");
    sleep_ms(20000);
  });
  CHECK(code == 8);
  CHECK(seconds < 10);
}

TEST_CASE("Progress, the estimate and a timeout of zero keep the process alive") {
  CHECK(in_child([] {
          Watchdog watchdog(1.0, "test");
          watchdog.enter("busy");
          for (int i = 0; i < 8; ++i) {
            sleep_ms(250);
            watchdog.touch();
          }
        }).first == 0);
  CHECK(in_child([] {
          Watchdog watchdog(0.2, "test");
          watchdog.enter("estimated", 10);
          sleep_ms(800);
        }).first == 0);
  CHECK(in_child([] {
          Watchdog watchdog(0, "test");
          watchdog.enter("off");
          sleep_ms(300);
        }).first == 0);
}
