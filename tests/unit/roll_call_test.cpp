// Which ranks a time-out names, from what they said of themselves.
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/roll_call.h"
#include "tests/support/catch.h"

using namespace tallsketch;

namespace {

const std::vector<std::string> kHosts = {"a", "a", "b", "b"};

Whereabouts waits(const std::string& stage, double idle = 10) { return {stage, idle, true, false}; }
Whereabouts works(const std::string& stage, double idle = 10) { return {stage, idle, false, false}; }
Whereabouts alive(Whereabouts rank) {
  rank.alive = true;
  return rank;
}

}  // namespace

TEST_CASE("Ranks that wait in the same stage are not named") {
  CHECK(absent_text({waits("reduce"), waits("reduce"), waits("reduce"), waits("reduce")}, kHosts).empty());
}

TEST_CASE("Ranks without a word are named with their hosts") {
  CHECK(absent_text({waits("reduce"), waits("reduce"), std::nullopt, waits("reduce")}, kHosts) ==
        "; no word from rank 2 on b (lost, stopped or cut off)");
  CHECK(absent_text({waits("reduce"), std::nullopt, std::nullopt, std::nullopt}, kHosts) ==
        "; no word from ranks 1-3 on a, b (lost, stopped or cut off)");
}

TEST_CASE("Ranks that do not wait, or wait elsewhere, keep the others waiting") {
  CHECK(absent_text({waits("sketch"), waits("sketch"), waits("sketch"), works("sketch", 20)}, kHosts) ==
        "; rank 3 on b works in stage 'sketch' without progress for 20 s");
  CHECK(absent_text({waits("reduce"), works("read", 5), works("read", 7), waits("devices")}, kHosts) ==
        "; ranks 1, 2 on a, b work in stage 'read' without progress for 7 s; rank 3 on b waits in stage 'devices'");
  // Where rank 0 itself is at work, the others wait for it as they should.
  CHECK(absent_text({works("factor"), waits("factor"), waits("factor"), waits("factor")}, kHosts).empty());
}

TEST_CASE("A job goes on while a rank is alive and none is missing") {
  CHECK(may_go_on({waits("reduce"), alive(works("sketch"))}));
  CHECK(may_go_on({alive(waits("reduce")), waits("reduce")}));
  CHECK_FALSE(may_go_on({waits("reduce"), works("sketch")}));
  CHECK_FALSE(may_go_on({waits("reduce"), waits("reduce")}));
  CHECK_FALSE(may_go_on({waits("reduce"), alive(works("sketch")), std::nullopt}));
  // Who is alive is not named beside those who are missing.
  CHECK(absent_text({waits("reduce"), alive(works("sketch")), std::nullopt}, kHosts) ==
        "; no word from rank 2 on b (lost, stopped or cut off)");
}

TEST_CASE("Hosts beyond a few are counted") {
  std::vector<std::optional<Whereabouts>> answers(100);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < 100; ++rank) hosts.push_back(fmt::format("n{}", rank));
  answers[0] = waits("reduce");
  CHECK(absent_text(answers, hosts) ==
        "; no word from ranks 1-99 on n1, n2, n3, n4 and 95 more nodes (lost, stopped or cut off)");
}
