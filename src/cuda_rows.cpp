#include "src/cuda_rows.h"

#include <algorithm>
#include <cassert>

#include "kernels/decode_cuda.h"
#include "kernels/strip_plan.h"

namespace tallsketch {

DeviceRows::~DeviceRows() {
  cudaStreamSynchronize(copies_.get());
  cudaStreamSynchronize(stream_.get());
}

std::int64_t DeviceRows::pitch_of(const ProblemShape& shape) { return cuda::device_pitch(shape.n, shape.a_type); }

std::int64_t DeviceRows::pinned_bytes() const {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += piece.a.bytes() + piece.b.bytes();
  for (const Lane& lane : lanes_) bytes += lane.a.bytes() + lane.b.bytes();
  return bytes;
}

void DeviceRows::release(bool but_for_kept) {
  copies_.synchronize();
  if (!but_for_kept) {
    kept_ = {};
    pieces_.clear();
  }
  for (Stage& stage : stages_) {
    stage.encoded = {};
    stage.rows = {};
    stage.used = false;
  }
}

void DeviceRows::begin(const SketchJob& job) {
  for (Lane& lane : lanes_) lane.busy = false;
  job_ = job;
  if (are_kept() && !job.kept) kept_ = make_buffers(job.rows.size());
  assert(!job.kept || !are_kept() || kept_.b.count() == job.rows.size() * job.shape.r);
  const bool chunks_pass = !job.kept || are_on_host();
  if (!chunks_pass || job.rows.empty()) return;
  for (Stage& stage : stages_) {
    if (!is_dense_on_device(job)) {
      stage.encoded = DeviceBuffer<std::byte>(chunk_rows() * job.shape.n * stored_size(job.encoding.type));
    }
    if (!are_kept()) stage.rows = make_buffers(chunk_rows());
  }
}

/// At a time: of the plan, or of a piece that an earlier plan made.
std::int64_t DeviceRows::chunk_rows() const {
  std::int64_t most = std::min(job_.plan.chunk_rows, job_.rows.size());
  for (const Piece& piece : pieces_) most = std::max(most, piece.rows.size());
  return most;
}

/// Zeros, because rows are decoded without their padding, which the strip engine wants finite and products want zero.
DeviceRows::Buffers DeviceRows::make_buffers(std::int64_t rows) const {
  const ProblemShape& shape = job_.shape;
  Buffers buffers{DeviceBuffer<std::byte>(rows * pitch_of(shape) * element_size(shape.a_type)),
                  DeviceBuffer<double>(rows * shape.r)};
  if (pitch_of(shape) != shape.n && rows > 0) {
    check(cudaMemsetAsync(buffers.a.data(), 0, buffers.a.bytes(), stream_.get()));
  }
  return buffers;
}

RowsOnDevice DeviceRows::view(const Buffers& buffers, std::int64_t local, RowRange rows) const {
  const auto& [m, n, r, type] = job_.shape;
  const std::int64_t pitch = pitch_of(job_.shape);
  return {{buffers.a.data() + local * pitch * element_size(type), rows.size(), n, pitch, type, rows.begin},
          {buffers.b.data() + local * r, rows.size(), r, r, ElementType::kFloat64, rows.begin}};
}

DeviceRows::Lane& DeviceRows::next_lane(PhaseTimer& timer) {
  Lane& lane = lanes_[lane_];
  finish(lane, timer);
  lane.chunk.lane = lane_;
  lane_ = (lane_ + 1) % lanes_.size();
  return lane;
}

void DeviceRows::place(Lane& lane, void* a, void* b, RowRange rows) {
  lane.chunk.a = a;
  lane.chunk.b = static_cast<double*>(b);
  lane.chunk.rows = rows;
}

ChunkBuffer& DeviceRows::next_buffer(RowRange rows, PhaseTimer& timer) {
  Lane& lane = next_lane(timer);
  const std::int64_t a_row_bytes = job_.shape.n * stored_size(job_.encoding.type);
  if (are_on_host()) {
    pieces_.push_back({PinnedBuffer(rows.size() * a_row_bytes), PinnedBuffer(rows.size() * job_.shape.r * 8), rows});
    place(lane, pieces_.back().a.data(), pieces_.back().b.data(), rows);
  } else {
    const std::int64_t most = chunk_rows();
    place(lane, room_for<std::byte>(most * a_row_bytes, lane.a), room_for<double>(most * job_.shape.r, lane.b), rows);
  }
  return lane.chunk;
}

const ChunkBuffer& DeviceRows::next_piece(const Piece& piece, PhaseTimer& timer) {
  Lane& lane = next_lane(timer);
  place(lane, piece.a.data(), piece.b.data(), piece.rows);
  return lane.chunk;
}

void DeviceRows::finish(Lane& lane, PhaseTimer& timer) {
  if (!lane.busy) return;
  lane.done.synchronize();
  if (lane.phase == Phase::kSketch) {  // a refinement pass is timed as a whole
    timer.add(Phase::kUpload, lane.uploaded.seconds_since(lane.start));
    timer.add(Phase::kSketch, lane.done.seconds_since(lane.begun));
  }
  lane.busy = false;
}

void DeviceRows::finish(PhaseTimer& timer) {
  for (Lane& lane : lanes_) finish(lane, timer);
}

/// Waits, on the stream of copies, until what was there before is done with.
DeviceRows::Stage& DeviceRows::next_stage(Lane& lane) {
  lane.stage = stage_;
  stage_ = (stage_ + 1) % stages_.size();
  Stage& stage = stages_[lane.stage];
  const bool passed_through = !are_kept() || !is_dense_on_device(job_);
  if (stage.used && passed_through) copies_.wait_for(stage.free);
  return stage;
}

RowsOnDevice DeviceRows::upload(const ChunkBuffer& chunk, Phase phase) {
  Lane& lane = lane_of(chunk);
  Stage& stage = next_stage(lane);
  lane.phase = phase;
  const auto rows = static_cast<std::size_t>(chunk.rows.size());
  const auto a_bytes = rows * static_cast<std::size_t>(job_.shape.n * stored_size(job_.encoding.type));
  const RowsOnDevice there =
      are_kept() ? view(kept_, chunk.rows.begin - job_.rows.begin, chunk.rows) : view(stage.rows, 0, chunk.rows);
  void* const encoded = is_dense_on_device(job_) ? const_cast<void*>(there.a.data) : stage.encoded.data();
  lane.start.record(copies_);
  check(cudaMemcpyAsync(const_cast<void*>(there.b.data), chunk.b, rows * static_cast<std::size_t>(job_.shape.r) * 8,
                        cudaMemcpyHostToDevice, copies_.get()));
  check(cudaMemcpyAsync(encoded, chunk.a, a_bytes, cudaMemcpyHostToDevice, copies_.get()));
  lane.uploaded.record(copies_);
  stream_.wait_for(lane.uploaded);
  lane.begun.record(stream_);
  if (!is_dense_on_device(job_)) {
    check(cuda::decode({encoded, chunk.rows.size(), job_.shape.n, job_.encoding}, there.a, stream_.get()));
  }
  return there;
}

void DeviceRows::mark_done(const ChunkBuffer& chunk) {
  Lane& lane = lane_of(chunk);
  Stage& stage = stages_[lane.stage];
  lane.done.record(stream_);
  stage.free.record(stream_);
  stage.used = lane.busy = true;
}

}  // namespace tallsketch
