#include "src/io_timing.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "kernels/decode_host.h"
#include "src/error.h"
#include "src/host_timing.h"
#include "src/read_team.h"
#include "src/row_pass.h"

namespace tallsketch {

namespace {

/// One file, and where its bytes begin among those of all.
struct OpenFile {
  OpenFile(const std::string& name, std::int64_t first) : path(name), begin(first) {
    descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    require(descriptor >= 0, ErrorKind::kInput, fmt::format("cannot open '{}': {}", name, std::strerror(errno)));
    end = begin + file_bytes({name});
  }
  OpenFile(OpenFile&& other) noexcept
      : path(std::move(other.path)),
        descriptor(std::exchange(other.descriptor, -1)),
        begin(other.begin),
        end(other.end) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::string path;
  int descriptor = -1;
  std::int64_t begin = 0, end = 0;
};

/// Reads bytes [begin, end) of all files into a buffer, again and again from its start.
void read_plainly(const std::vector<OpenFile>& files, std::int64_t begin, std::int64_t end, std::byte* buffer,
                  std::int64_t room) {
  constexpr std::int64_t kCall = std::int64_t{8} << 20;
  std::int64_t used = 0;
  for (const OpenFile& file : files) {
    for (std::int64_t at = std::max(begin, file.begin); at < std::min(end, file.end);) {
      if (used == room) used = 0;
      const std::int64_t wanted = std::min({kCall, room - used, std::min(end, file.end) - at});
      const ssize_t got = ::pread(file.descriptor, buffer + used, static_cast<std::size_t>(wanted), at - file.begin);
      if (got < 0 && errno == EINTR) continue;
      require(got > 0, ErrorKind::kInput,
              fmt::format("cannot read '{}' at byte {}: {}", file.path, at - file.begin,
                          got == 0 ? "it was shortened meanwhile" : std::strerror(errno)));
      at += got;
      used += got;
    }
  }
}

}  // namespace

ChunkBuffers::ChunkBuffers(const RowSource& source, std::int64_t rows, int count)
    : chunk_rows(rows),
      a_bytes(rows * source.shape().n * stored_size(source.encoding().type)),
      lanes(count),
      a(a_bytes * count),
      b(static_cast<std::size_t>(rows * source.shape().r)) {}

std::int64_t file_bytes(const std::vector<std::string>& files) {
  std::int64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code failure;
    bytes += static_cast<std::int64_t>(std::filesystem::file_size(file, failure));
    require(!failure, ErrorKind::kInput, fmt::format("cannot find out the size of '{}': {}", file, failure.message()));
  }
  return bytes;
}

double pread_seconds(const std::vector<std::string>& files, int rank, int ranks, int threads, ChunkBuffers& buffers) {
  std::vector<OpenFile> open;
  for (const std::string& file : files) open.emplace_back(file, open.empty() ? 0 : open.back().end);
  const std::int64_t total = open.back().end, parts = std::int64_t{ranks} * threads;
  const std::int64_t room = std::max<std::int64_t>(1, buffers.a.bytes() / threads);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
  ReadTeam team(threads);
  std::atomic<int> next{0};
  const double seconds = seconds_of([&] {
    team.run(threads, [&](int) {
      for (int thread = next++; thread < threads; thread = next++) {
        const std::int64_t part = std::int64_t{rank} * threads + thread;
        try {
          read_plainly(open, total / parts * part, part + 1 == parts ? total : total / parts * (part + 1),
                       buffers.a.data() + std::min(thread * room, buffers.a.bytes() - room), room);
        } catch (...) {
          failures[static_cast<std::size_t>(thread)] = std::current_exception();
        }
      }
    });
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return seconds;
}

double read_seconds(RowSource& source, RowRange rows, ChunkBuffers& buffers) {
  return seconds_of([&] {
    std::int64_t lane = 0;
    for_each_chunk(rows, buffers.chunk_rows, [&](RowRange chunk) {
      source.read_encoded(chunk, buffers.a.data() + lane * buffers.a_bytes, buffers.b.data());
      lane = (lane + 1) % buffers.lanes;
    });
  });
}

double decode_seconds(const RowSource& source, RowRange rows, int threads, const ChunkBuffers& buffers) {
  const ProblemShape& shape = source.shape();
  HostBuffer decoded(buffers.chunk_rows * shape.a_row_bytes());
  std::memset(decoded.data(), 0,
              static_cast<std::size_t>(decoded.bytes()));  // its pages are there before time is taken
  return seconds_of([&] {
    std::int64_t lane = 0;
    for_each_chunk(rows, buffers.chunk_rows, [&](RowRange chunk) {
      const std::byte* const from = buffers.a.data() + lane * buffers.a_bytes;
      host::decode({from, chunk.size(), shape.n, source.encoding()}, decoded.data(), shape.a_type, threads);
      lane = (lane + 1) % buffers.lanes;
    });
  });
}

double sketch_seconds(RowSource& source, const SketchJob& job, Backend& backend) {
  backend.begin(job);
  double seconds = 0;
  int filled = 0;
  for_each_chunk(job.rows, job.plan.chunk_rows, [&](RowRange rows) {
    const ChunkBuffer& chunk = backend.next_buffer(rows);
    if (filled < backend.lanes()) {  // after that the buffers come again
      source.read_encoded(rows, chunk.a, chunk.b);
      ++filled;
    }
    seconds += seconds_of([&] { backend.upload(chunk); });
  });
  return seconds + seconds_of([&] { backend.sketch(); });
}

}  // namespace tallsketch
