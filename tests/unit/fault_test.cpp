// What a fault on purpose is, from its text.
#include <string>

#include "src/error.h"
#include "src/fault.h"
#include "tests/support/catch.h"

using namespace tallsketch;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("A fault has a rank, a stage, perhaps the entry that counts, and an action") {
  const Fault plain = parse_fault("1:reduce:kill");
  CHECK(plain.rank == 1);
  CHECK(plain.stage == "reduce");
  CHECK(plain.entry == 1);
  CHECK(plain.action == Fault::Action::kKill);
  const Fault third = parse_fault("12:bench io#3:stop");
  CHECK(third.rank == 12);
  CHECK(third.stage == "bench io");
  CHECK(third.entry == 3);
  CHECK(third.action == Fault::Action::kStop);
  CHECK(parse_fault("0:open:hang").action == Fault::Action::kHang);
  CHECK(parse_fault("0:sketch:throw").action == Fault::Action::kThrow);
  CHECK(parse_fault("0:sketch:oom").action == Fault::Action::kOom);
  CHECK(parse_fault("0:sketch:short-read").action == Fault::Action::kShortRead);
  CHECK(parse_fault("0:sketch:nan").action == Fault::Action::kNan);
  CHECK(parse_fault("0:sketch:slow").action == Fault::Action::kSlow);
}

TEST_CASE("A text that is no fault is refused and named, so that a test cannot pass without its fault") {
  for (const std::string text : {"", "1", "1:reduce", ":reduce:kill", "x:reduce:kill", "-1:reduce:kill", "1::kill",
                                 "1:reduce:", "1:reduce:explode", "1:reduce#:kill", "1:reduce#0:kill",
                                 "1:reduce#x:kill", "1:#2:kill", "1 :reduce:kill", "99999999999:reduce:kill"}) {
    INFO(text);
    try {
      parse_fault(text);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK_THAT(error.what(), ContainsSubstring("'" + text + "'"));
    }
  }
}
