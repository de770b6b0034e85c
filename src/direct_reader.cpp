#include "src/direct_reader.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "src/error.h"
#include "src/fault.h"

namespace tallsketch {

namespace {

/// What a read met: 0 and the place where the file ended, or errno.
struct Failure {
  bool failed = false;
  int reason = 0;
  std::int64_t at = 0;
};

/// Tasks of a member, which begins with them and then helps others: so the same thread writes to the same part of a buffer each
/// time it is used, and finds it in its own cache.
struct alignas(64) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

Failure read_fully(int descriptor, std::int64_t offset, std::int64_t bytes, std::byte* out) {
  if (fault_strikes(Fault::Action::kShortRead)) return {true, 0, offset};
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, out, static_cast<std::size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {true, got < 0 ? errno : 0, offset};
    offset += got;
    bytes -= got;
    out += got;
  }
  return {};
}

}  // namespace

// Long enough for disks, which the system reads ahead from, and short enough that threads end together: a chunk has 128.
std::int64_t DirectReader::block_bytes = std::int64_t{256} << 10;

DirectReader::DirectReader(const std::string& path, std::shared_ptr<ReadTeam> team)
    : path_(path), team_(std::move(team)) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor_ >= 0, ErrorKind::kInput, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
}

DirectReader::~DirectReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DirectReader::read(const StridedBytes& pieces, std::byte* out) const {
  if (pieces.bytes == 0 || pieces.count == 0) return;
  // Tasks: parts of long pieces, or several short pieces.
  const std::int64_t parts = (pieces.bytes + block_bytes - 1) / block_bytes;  // of a piece
  const std::int64_t together = std::max<std::int64_t>(1, block_bytes / pieces.bytes);
  const std::int64_t tasks = (pieces.count + together - 1) / together * parts;
  const auto members = static_cast<std::size_t>(std::min<std::int64_t>(threads(), tasks));
  std::vector<Failure> failures(members);
  std::vector<Share> shares(members);
  for (std::size_t k = 0; k < members; ++k) {
    shares[k].next = tasks * static_cast<std::int64_t>(k) / static_cast<std::int64_t>(members);
    shares[k].end = tasks * static_cast<std::int64_t>(k + 1) / static_cast<std::int64_t>(members);
  }
  const auto read_task = [&](std::int64_t t) -> Failure {
    const std::int64_t begin = t % parts * block_bytes, bytes = std::min(block_bytes, pieces.bytes - begin);
    const std::int64_t first = t / parts * together, last = std::min(pieces.count, first + together);
    Failure failure;
    for (std::int64_t k = first; k < last && !failure.failed; ++k) {
      failure =
          read_fully(descriptor_, pieces.offset + k * pieces.stride + begin, bytes, out + k * pieces.pitch + begin);
    }
    return failure;
  };
  team_->run(static_cast<int>(members), [&](int member) {
    const auto own = static_cast<std::size_t>(member);
    for (std::size_t k = 0; k < members; ++k) {
      Share& share = shares[(own + k) % members];
      for (std::int64_t t = share.next++; t < share.end && !failures[own].failed; t = share.next++) {
        failures[own] = read_task(t);
      }
    }
  });
  for (const Failure& failure : failures) {
    require(!failure.failed, ErrorKind::kInput,
            failure.reason != 0
                ? fmt::format("cannot read '{}' at byte {}: {}", path_, failure.at, std::strerror(failure.reason))
                : fmt::format("'{}' ends at byte {} while it is read: it was shortened; run again when it is complete",
                              path_, failure.at));
  }
}

}  // namespace tallsketch
