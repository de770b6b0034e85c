// What the launcher did, checked before anything else: MPI size against the launcher's variables, and the GPU of a
// rank. Pure functions; called by the drivers and by cuda_backend.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tallsketch {

/// Value of an environment variable, if set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

/// Throws Error{kCommunication} when the launcher started more tasks than MPI sees: then every task would solve the
/// whole problem alone, and all would write the same file.
void check_launcher(int mpi_size, const Environment& environment);

/// Device ordinal of a rank: its node-local rank, or 0 where the launcher shows one device only.
/// may_share  ranks may share a device (--comm mpi)
/// Errors     kCommunication: no device, or more ranks than devices on the node
int pick_device(int node_rank, int visible_devices, bool may_share);

/// One line for each GPU that several ranks hold, empty if none. entries: (host, rank, uuid) of every rank.
struct RankDevice {
  std::string host;
  int rank = 0;
  std::string uuid;
};
std::vector<std::string> shared_devices(const std::vector<RankDevice>& ranks);

}  // namespace tallsketch
