// What the launcher did, checked before anything else: MPI size against the launcher's variables, and the GPU of a
// rank. Pure functions; called by the drivers and by cuda_backend.
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

/// Throws Error{kCommunication} unless every rank can have a device, with the map of ranks and devices, and what to change.
/// ranks      of all, in rank order
/// may_share  ranks may share a device (--comm mpi)
void check_devices(const std::vector<RankView>& ranks, bool may_share);

/// Device ordinal of a rank: its node-local rank modulo the devices that it can see. For what check_devices accepts.
int pick_device(int node_rank, int visible_devices);

/// One line for each GPU that several ranks hold, empty if none.
/// ranks  of all, in rank order
std::vector<std::string> shared_devices(const std::vector<RankPlace>& ranks);

}  // namespace tallsketch
