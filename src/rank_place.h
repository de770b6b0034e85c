// RankPlace: where a rank runs, for the log, the report and the check of GPUs. Pure; backends fill it.
#pragma once

#include <string>
#include <vector>

namespace tallsketch {

struct RankPlace {
  std::string host;
  std::string device;  // "NVIDIA H200", "2 threads"
  int ordinal = -1;    // of a device, among those that the rank can see; -1: no device
  std::string uuid;    // of a device
  std::string driver;  // "580.159.04"
  std::string links;   // "4 GPUs visible, NVLink to 3"

  /// "NVIDIA H200 #0", "2 threads"
  std::string label() const;
};

/// A line for every node, in the order of first ranks: "node gpu01: ranks 0-3 on NVIDIA H200 #0-3, driver 580.159.04, 4 GPUs
/// visible, NVLink to 3". After `most` lines one that counts the others.
/// ranks  of all, in rank order
std::vector<std::string> node_lines(const std::vector<RankPlace>& ranks, std::size_t most);

/// "0-3, 6": runs of numbers that follow each other, in the order given.
std::string runs_text(const std::vector<int>& numbers, const std::string& before = "");

}  // namespace tallsketch
