#include "src/cuda_rows.h"

#include <algorithm>
#include <cassert>

#include "kernels/strip_plan.h"

namespace tallsketch {

std::int64_t DeviceRows::pitch_of(const ProblemShape& shape) { return cuda::device_pitch(shape.n, shape.a_type); }

std::int64_t DeviceRows::kept_row_bytes(const ProblemShape& shape) {
  return pitch_of(shape) * element_size(shape.a_type) + shape.r * element_size(ElementType::kFloat64);
}

std::int64_t DeviceRows::kept_chunk_row_bytes(const ProblemShape& shape) {
  return pitch_of(shape) == shape.n ? 0 : shape.a_row_bytes();
}

std::int64_t DeviceRows::chunk_row_bytes(const ProblemShape& shape) {
  return kept_row_bytes(shape) + kept_chunk_row_bytes(shape);
}

void DeviceRows::release(bool but_for_kept) {
  if (!but_for_kept) kept_ = {};
  passing_ = {};
  dense_ = {};
}

void DeviceRows::begin(const SketchJob& job) {
  assert(!job.kept || (kept_.b.count() == job.rows.size() * job.shape.r && job.shape.n == job_.shape.n));
  for (Lane& lane : lanes_) lane.busy = false;
  job_ = job;
  if (job.kept) return;
  if (are_kept()) {
    kept_ = make_buffers(job.rows.size());
  } else {
    passing_ = make_buffers(job.plan.chunk_rows);
  }
  if (kept_chunk_row_bytes(job.shape) > 0) dense_room();
}

/// For A of one chunk without padding.
std::byte* DeviceRows::dense_room() {
  return room_for<std::byte>(job_.plan.chunk_rows * job_.shape.a_row_bytes(), dense_);
}

/// Zeros, because rows are copied without their padding, which the strip engine wants finite and products want zero.
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

DeviceRows::Lane& DeviceRows::lane_of(const ChunkBuffer& chunk) {
  return *std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return &lane.chunk == &chunk; });
}

ChunkBuffer& DeviceRows::next_buffer(RowRange rows, PhaseTimer& timer) {
  Lane& lane = lanes_[next_];
  next_ = (next_ + 1) % kLanes;
  finish(lane, timer);
  const std::int64_t most = job_.plan.chunk_rows;
  lane.chunk.a = room_for<std::byte>(most * job_.shape.a_row_bytes(), lane.a);
  lane.chunk.b = room_for<double>(most * job_.shape.r, lane.b);
  lane.chunk.rows = rows;
  return lane.chunk;
}

void DeviceRows::finish(Lane& lane, PhaseTimer& timer) {
  if (!lane.busy) return;
  lane.done.synchronize();
  timer.add(Phase::kUpload, lane.uploaded.seconds_since(lane.start));
  timer.add(Phase::kSketch, lane.done.seconds_since(lane.uploaded));
  lane.busy = false;
}

void DeviceRows::finish(PhaseTimer& timer) {
  for (Lane& lane : lanes_) finish(lane, timer);
}

RowsOnDevice DeviceRows::upload(const ChunkBuffer& chunk) {
  Lane& lane = lane_of(chunk);
  lane.start.record(stream_);
  return are_kept() ? copy(chunk, kept_, chunk.rows.begin - job_.rows.begin, &lane.uploaded)
                    : copy(chunk, passing_, 0, &lane.uploaded);
}

void DeviceRows::mark_done(const ChunkBuffer& chunk) {
  Lane& lane = lane_of(chunk);
  lane.done.record(stream_);
  lane.busy = true;
}

RowsOnDevice DeviceRows::borrow(const ChunkBuffer& chunk) {
  if (passing_.b.count() == 0) passing_ = make_buffers(job_.plan.chunk_rows);
  return copy(chunk, passing_, 0, nullptr);
}

/// The rows of a chunk into buffers, from their row `local` on.
RowsOnDevice DeviceRows::copy(const ChunkBuffer& chunk, const Buffers& to, std::int64_t local, CudaEvent* uploaded) {
  const RowsOnDevice there = view(to, local, chunk.rows);
  const auto rows = static_cast<std::size_t>(chunk.rows.size());
  const auto row_bytes = static_cast<std::size_t>(job_.shape.a_row_bytes());
  auto* const a = const_cast<void*>(there.a.data);
  const bool dense = there.a.pitch == there.a.cols;
  check(cudaMemcpyAsync(const_cast<void*>(there.b.data), chunk.b, rows * static_cast<std::size_t>(job_.shape.r) * 8,
                        cudaMemcpyHostToDevice, stream_.get()));
  check(cudaMemcpyAsync(dense ? a : dense_room(), chunk.a, rows * row_bytes, cudaMemcpyHostToDevice, stream_.get()));
  if (uploaded != nullptr) uploaded->record(stream_);
  if (!dense) {
    const auto pitch_bytes = static_cast<std::size_t>(there.a.pitch * element_size(there.a.type));
    check(cudaMemcpy2DAsync(a, pitch_bytes, dense_.data(), row_bytes, row_bytes, rows, cudaMemcpyDeviceToDevice,
                            stream_.get()));
  }
  return there;
}

}  // namespace tallsketch
