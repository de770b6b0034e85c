// DeviceRows: rows of [A | b] in device memory, in their stored type, and how they come there from the host.
// Held by cuda_backend: rows of a resident job stay, others have room for one chunk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/backend.h"
#include "src/cuda_handles.h"

namespace tallsketch {

/// Some rows on the device: A in its stored type, cuda::device_pitch from row to row, zeros between; b in FP64, dense.
struct RowsOnDevice {
  SlabView a, b;
};

class DeviceRows {
 public:
  explicit DeviceRows(const CudaStream& stream) : stream_(stream) {}

  /// Device bytes of a row: where it stays, and in the buffers that it passes, with rows kept and without.
  static std::int64_t kept_row_bytes(const ProblemShape& shape);
  static std::int64_t kept_chunk_row_bytes(const ProblemShape& shape);
  static std::int64_t chunk_row_bytes(const ProblemShape& shape);

  /// Room for the job's rows, or with job.kept those that are here; nobody uses them any more.
  void begin(const SketchJob& job);
  /// Gives device memory back. The pinned buffers stay: they take long to make.
  void release(bool but_for_kept);
  /// Of kept rows.
  std::int64_t kept_bytes() const { return kept_.bytes(); }

  bool are_kept() const { return job_.plan.residency == Residency::kDevice; }
  RowsOnDevice kept() const { return view(kept_, 0, job_.rows); }
  /// A part of the kept rows.
  RowsOnDevice kept(RowRange rows) const { return view(kept_, rows.begin - job_.rows.begin, rows); }

  /// A pinned buffer for these rows; waits until it is free, and books the time of its last rows.
  ChunkBuffer& next_buffer(RowRange rows, PhaseTimer& timer);
  /// Its rows on the device, once the stream gets there: in their place where rows are kept.
  RowsOnDevice upload(const ChunkBuffer& chunk);
  /// After upload: whatever is done with the rows is on the stream.
  void mark_done(const ChunkBuffer& chunk);
  /// Waits for all buffers and books their time.
  void finish(PhaseTimer& timer);
  /// Upload to where nothing is kept, and nothing is booked.
  RowsOnDevice borrow(const ChunkBuffer& chunk);

 private:
  static constexpr std::size_t kLanes = 2;  // one is filled while the other is uploaded

  /// (rows, pitch) of A, (rows, r) of b
  struct Buffers {
    DeviceBuffer<std::byte> a;
    DeviceBuffer<double> b;
    std::int64_t bytes() const { return static_cast<std::int64_t>(a.bytes() + b.bytes()); }
  };
  /// One chunk on its way: pinned rows, and when each step was done.
  struct Lane {
    ChunkBuffer chunk;
    PinnedBuffer a, b;
    CudaEvent start, uploaded, done;
    bool busy = false;
  };

  static std::int64_t pitch_of(const ProblemShape& shape);
  std::byte* dense_room();
  Buffers make_buffers(std::int64_t rows) const;
  RowsOnDevice view(const Buffers& buffers, std::int64_t local, RowRange rows) const;
  Lane& lane_of(const ChunkBuffer& chunk);
  void finish(Lane& lane, PhaseTimer& timer);
  RowsOnDevice copy(const ChunkBuffer& chunk, const Buffers& to, std::int64_t local, CudaEvent* uploaded);

  const CudaStream& stream_;
  SketchJob job_;
  Buffers kept_, passing_;         // all rows; those of one chunk, from the first one on that is not kept
  DeviceBuffer<std::byte> dense_;  // A of one chunk without padding, where there is some
  std::array<Lane, kLanes> lanes_;
  std::size_t next_ = 0;
};

}  // namespace tallsketch
