#include "src/rank_place.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/text.h"

namespace tallsketch {

namespace {

/// Ranks of one node that differ in their device's ordinal only.
struct Group {
  RankPlace place;
  std::vector<int> ranks, ordinals;

  bool takes(const RankPlace& other) const {
    return place.device == other.device && place.driver == other.driver && place.links == other.links;
  }
  std::string text() const {
    std::string line =
        fmt::format("rank{} {} on {}", plural(static_cast<std::int64_t>(ranks.size())), runs_text(ranks), place.device);
    if (place.ordinal >= 0) line += fmt::format(" {}", runs_text(ordinals, "#"));
    if (!place.driver.empty()) line += fmt::format(", driver {}", place.driver);
    if (!place.links.empty()) line += fmt::format(", {}", place.links);
    return line;
  }
};

struct Node {
  std::string host;
  std::vector<Group> groups;

  void add(int rank, const RankPlace& place) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& each) { return each.takes(place); });
    if (group == groups.end()) group = groups.insert(groups.end(), Group{place, {}, {}});
    group->ranks.push_back(rank);
    group->ordinals.push_back(place.ordinal);
  }
  std::string line() const {
    std::string text;
    for (const Group& group : groups) text += (text.empty() ? "" : "; ") + group.text();
    return fmt::format("node {}: {}", host, text);
  }
};

}  // namespace

std::string RankPlace::label() const { return ordinal < 0 ? device : fmt::format("{} #{}", device, ordinal); }

std::string runs_text(const std::vector<int>& numbers, const std::string& before) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last + 1) {
    last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", before, numbers[first]);
    if (last > first)
      text += fmt::format("{}{}{}", last > first + 1 ? "-" : ", ", last > first + 1 ? "" : before, numbers[last]);
  }
  return text;
}

std::vector<std::string> node_lines(const std::vector<RankPlace>& ranks, std::size_t most) {
  std::vector<Node> nodes;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    // Launchers place neighbours together: looked for from the end.
    auto node =
        std::find_if(nodes.rbegin(), nodes.rend(), [&](const Node& each) { return each.host == ranks[rank].host; });
    if (node == nodes.rend()) {
      nodes.push_back({ranks[rank].host, {}});
      node = nodes.rbegin();
    }
    node->add(static_cast<int>(rank), ranks[rank]);
  }
  std::vector<std::string> lines;
  for (const Node& node : nodes) {
    if (lines.size() == most && nodes.size() > most) {
      const std::size_t others = nodes.size() - most;
      lines.push_back(fmt::format("and {} more node{} (--verbose and the report list all)", others,
                                  plural(static_cast<std::int64_t>(others))));
      break;
    }
    lines.push_back(node.line());
  }
  return lines;
}

}  // namespace tallsketch
