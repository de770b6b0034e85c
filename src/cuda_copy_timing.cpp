#include "src/cuda_copy_timing.h"

#include <algorithm>
#include <cstring>

#include "src/cuda_handles.h"

namespace tallsketch {

double time_pinned_copy(std::int64_t bytes) {
  constexpr std::int64_t kPiece = std::int64_t{64} << 20, kPieces = 4;  // chunks and lanes of a solve
  if (bytes <= 0) return 0;
  const std::int64_t room = std::min(bytes, kPiece * kPieces);
  const PinnedBuffer from(room);
  std::memset(from.data(), 0, static_cast<std::size_t>(room));
  const DeviceBuffer<std::byte> to(room);
  const CudaStream stream;
  CudaEvent start, end;
  start.record(stream);
  for (std::int64_t at = 0; at < bytes; at += kPiece) {
    const std::int64_t place = at % (kPiece * kPieces), count = std::min(kPiece, bytes - at);
    check(cudaMemcpyAsync(to.data() + place, static_cast<const std::byte*>(from.data()) + place,
                          static_cast<std::size_t>(count), cudaMemcpyHostToDevice, stream.get()));
  }
  end.record(stream);
  end.synchronize();
  return end.seconds_since(start);
}

}  // namespace tallsketch
