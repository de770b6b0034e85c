// What the log says of nodes, ranks and devices.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/rank_place.h"
#include "tests/support/catch.h"

using namespace tallsketch;

TEST_CASE("Numbers that follow each other are a run; others are listed, in the order given") {
  CHECK(runs_text({}).empty());
  CHECK(runs_text({7}) == "7");
  CHECK(runs_text({0, 1}) == "0, 1");
  CHECK(runs_text({0, 1, 2, 3, 6}) == "0-3, 6");
  CHECK(runs_text({1, 0, 3, 2}) == "1, 0, 3, 2");
  CHECK(runs_text({0, 1, 2, 5, 6}, "#") == "#0-2, #5, #6");
}

TEST_CASE("A node is one line: ranks, devices, driver and links, those that differ apart") {
  const auto gpu = [](const std::string& host, int ordinal) {
    return RankPlace{host, "NVIDIA H200", ordinal, fmt::format("GPU-{}{}", host, ordinal), "580.1", "2 GPUs visible"};
  };
  CHECK(gpu("a", 1).label() == "NVIDIA H200 #1");
  CHECK(RankPlace{"a", "2 threads", -1, "", "", ""}.label() == "2 threads");
  const std::vector<std::string> expected = {
      "node a: ranks 0, 1 on NVIDIA H200 #0, #1, driver 580.1, 2 GPUs visible",
      "node b: rank 2 on 8 threads; rank 4 on NVIDIA H200 #1, driver 580.1, 2 GPUs visible",
      "node c: rank 3 on 1 thread"};
  CHECK(node_lines({gpu("a", 0),
                    gpu("a", 1),
                    {"b", "8 threads", -1, "", "", ""},
                    {"c", "1 thread", -1, "", "", ""},
                    gpu("b", 1)},
                   16) == expected);
}

TEST_CASE("Lines beyond the most are counted") {
  std::vector<RankPlace> ranks;
  for (int node = 0; node < 5; ++node) ranks.push_back({fmt::format("n{}", node), "1 thread", -1, "", "", ""});
  CHECK(node_lines(ranks, 5).size() == 5);
  const auto lines = node_lines(ranks, 4);
  REQUIRE(lines.size() == 5);
  CHECK(lines[3] == "node n3: rank 3 on 1 thread");
  CHECK(lines[4] == "and 1 more node (--verbose and the report list all)");
}
