// Processor time a piece of work, not for all of it: limits of this process, set and read back.
#include <sys/resource.h>

#include "src/processor_budget.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

rlim_t limit_now() {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_CPU, &limit) == 0);
  return limit.rlim_cur;
}

double used_now() {
  rusage usage{};
  REQUIRE(::getrusage(RUSAGE_SELF, &usage) == 0);
  return processor_seconds(usage);
}

void use(double seconds) {
  for (const double end = used_now() + seconds; used_now() < end;) continue;
}

/// Sets the soft limit while it lives.
class SoftLimit {
 public:
  explicit SoftLimit(rlim_t seconds) {
    REQUIRE(::getrlimit(RLIMIT_CPU, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = seconds;
    REQUIRE(::setrlimit(RLIMIT_CPU, &limit) == 0);
  }
  ~SoftLimit() { ::setrlimit(RLIMIT_CPU, &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("What earlier pieces of work used does not count against the next one") {
  const SoftLimit outer(5000);
  const ProcessorBudget budget(100);
  for (int piece = 0; piece < 3; ++piece) {
    budget.renew();
    const double used = used_now();
    const auto left = static_cast<double>(limit_now()) - used;
    CHECK(left > 99);  // a system may have counted a little on in between
    CHECK(left <= 101);
    use(1);
  }
}

TEST_CASE("The limit that a process was started with stays") {
  const SoftLimit outer(50);
  const ProcessorBudget budget(100);
  for (int piece = 0; piece < 2; ++piece) {
    budget.renew();
    CHECK(limit_now() == 50);
  }
  const ProcessorBudget shorter(10);
  shorter.renew();
  CHECK(limit_now() < 50);
}
