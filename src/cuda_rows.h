// DeviceRows: rows of [A | b] in device memory, in their stored type, and how they come there from the host: copied on a stream
// of their own while the backend's stream computes with the chunk before. Held by cuda_backend: rows of a resident job stay on
// the device or in page-locked host memory, others have room for a few chunks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/backend.h"
#include "src/cuda_handles.h"
#include "src/device_row_limits.h"

namespace tallsketch {

/// Some rows on the device: A in its stored type, cuda::device_pitch from row to row, zeros between; b in FP64, dense.
struct RowsOnDevice {
  SlabView a, b;
};

class DeviceRows {
 public:
  explicit DeviceRows(const CudaStream& stream) : stream_(stream) {}
  /// Waits for copies under way: an error may leave while memory is still written.
  ~DeviceRows();
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;

  /// Room for the job's rows, or with job.kept those that are here; nobody uses them any more.
  void begin(const SketchJob& job);
  /// Gives device memory back, and host memory of kept rows. The page-locked buffers of chunks stay: they take long to make.
  void release(bool but_for_kept);
  /// Of kept rows, on the device and on the host.
  std::int64_t kept_bytes() const { return kept_.bytes(); }
  std::int64_t pinned_bytes() const;

  bool are_kept() const { return job_.plan.residency == Residency::kDevice; }
  bool are_on_host() const { return job_.plan.residency == Residency::kHost; }
  RowsOnDevice kept() const { return view(kept_, 0, job_.rows); }
  /// A part of the kept rows.
  RowsOnDevice kept(RowRange rows) const { return view(kept_, rows.begin - job_.rows.begin, rows); }

  /// A page-locked buffer for these rows; waits until it is free, and books the time of its last rows.
  ChunkBuffer& next_buffer(RowRange rows, PhaseTimer& timer);
  /// Its rows on the device, decoded, once the stream gets there: in their place where rows are kept.
  /// phase  that what follows on the stream is booked under
  RowsOnDevice upload(const ChunkBuffer& chunk, Phase phase);
  /// After upload: whatever is done with the rows is on the stream.
  void mark_done(const ChunkBuffer& chunk);
  /// Waits for all buffers and books their time.
  void finish(PhaseTimer& timer);

  /// With rows that stay on the host: uploads all of them again, piece by piece, and calls use(rows on the device).
  template <class F>
  void stream_kept(PhaseTimer& timer, Phase phase, F&& use) {
    for (const Piece& piece : pieces_) {
      const ChunkBuffer& chunk = next_piece(piece, timer);
      use(upload(chunk, phase));
      mark_done(chunk);
    }
  }

 private:
  /// (rows, pitch) of A, (rows, r) of b
  struct Buffers {
    DeviceBuffer<std::byte> a;
    DeviceBuffer<double> b;
    std::int64_t bytes() const { return static_cast<std::int64_t>(a.bytes() + b.bytes()); }
  };
  /// One chunk on its way: page-locked rows, and when each step was done.
  struct Lane {
    ChunkBuffer chunk;
    PinnedBuffer a, b;
    CudaEvent start, uploaded, begun, done;
    std::size_t stage = 0;
    Phase phase = Phase::kSketch;
    bool busy = false;
  };
  /// Room on the device for one chunk: as it is encoded, where it must be decoded, and as it is computed with, where rows are
  /// not kept there.
  struct Stage {
    DeviceBuffer<std::byte> encoded;
    Buffers rows;
    CudaEvent free;
    bool used = false;
  };
  /// A chunk that stays in host memory.
  struct Piece {
    PinnedBuffer a, b;
    RowRange rows;
  };

  static std::int64_t pitch_of(const ProblemShape& shape);
  std::int64_t chunk_rows() const;
  Buffers make_buffers(std::int64_t rows) const;
  RowsOnDevice view(const Buffers& buffers, std::int64_t local, RowRange rows) const;
  Lane& next_lane(PhaseTimer& timer);
  static void place(Lane& lane, void* a, void* b, RowRange rows);
  const ChunkBuffer& next_piece(const Piece& piece, PhaseTimer& timer);
  Lane& lane_of(const ChunkBuffer& chunk) { return lanes_[chunk.lane]; }
  void finish(Lane& lane, PhaseTimer& timer);
  Stage& next_stage(Lane& lane);

  const CudaStream& stream_;  // computes
  CudaStream copies_;         // uploads
  SketchJob job_;
  Buffers kept_;               // all rows, on the device
  std::vector<Piece> pieces_;  // all rows, on the host
  std::array<Stage, kDeviceStages> stages_;
  std::array<Lane, kDeviceLanes> lanes_;
  std::size_t lane_ = 0, stage_ = 0;  // the next
};

}  // namespace tallsketch
