// What the launcher did, checked before anything else: MPI size against the launcher's variables, and the GPU of a rank. Called
// by the drivers and by cuda_backend.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/rank_place.h"

namespace tallsketch {

/// Value of an environment variable, if set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

/// Throws Error{kCommunication} when the launcher started more tasks than MPI sees: then every task would solve the
/// whole problem alone, and all would write the same file.
void check_launcher(int mpi_size, const Environment& environment);

/// What a rank can see before it has a device.
struct RankView {
  std::string host;
  int node_rank = 0;
  int visible = 0;  // devices
};

/// "node a: ranks 0-3 see 4 GPUs; node b: rank 4 sees none", of the first nodes of many.
std::string device_map(const std::vector<RankView>& ranks);

/// Throws Error{kCommunication} unless every rank sees a device, with the map of those that do not, and what to change. Whether
/// two ranks hold the same one is found out by its UUID: a launcher may show each rank others.
/// ranks  of all, in rank order
void check_devices(const std::vector<RankView>& ranks);

/// Device ordinal of a rank: its node-local rank modulo the devices that it can see. For what check_devices accepts.
int pick_device(int node_rank, int visible_devices);

/// One line for each GPU that several ranks hold, empty if none.
/// ranks  of all, in rank order
std::vector<std::string> shared_devices(const std::vector<RankPlace>& ranks);

}  // namespace tallsketch
