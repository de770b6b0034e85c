#include "src/cuda_strip.h"

#include <algorithm>
#include <cassert>

#include "kernels/sketch_cuda.h"

namespace tallsketch {

namespace {

// The table of 2^25 rows at zeta = 4: with n = 64 a thirty-second of the 8.6 GB that it serves. Larger tables save
// nothing; smaller ones end and restart the strips more often.
constexpr std::int64_t kTableBytes = std::int64_t{288} << 20;

// FP32 copies of rows that the engine does not read as they are: far larger than the caches, far smaller than A.
constexpr std::int64_t kConvertedBytes = std::int64_t{256} << 20;

constexpr std::int64_t kNarrowColumns = 16;  // of b at a time: partial results stay below 280 MB

}  // namespace

cuda::DeviceLimits limits_of_current_device() {
  int device = 0, multiprocessors = 0, shared = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return {multiprocessors, shared};
}

bool StripSketcher::serves(const SketchSpec& spec, std::int64_t n) {
  bool available = false;
  check(cuda::strip_engine_available(&available));
  return available && cuda::make_strip_plan(cuda::launch_share(spec), n, limits_of_current_device()).served;
}

namespace {

/// The plan that reads A as it is stored, or else the one for its FP32 copy.
cuda::StripPlan plan_for(const SketchSpec& spec, std::int64_t n, const cuda::DeviceLimits& limits, ElementType type) {
  const cuda::StripPlan plan = cuda::make_strip_plan(spec, n, limits, type);
  return plan.served ? plan : cuda::make_strip_plan(spec, n, limits);
}

/// Rows that a table need not exceed, because no more are given or converted at a time.
std::int64_t rows_at_once(const cuda::StripPlan& plan, std::int64_t n, std::int64_t r, std::int64_t rows,
                          ElementType type, ElementType b_type) {
  if (plan.type != type) rows = std::min(rows, kConvertedBytes / (cuda::device_pitch(n) * 4));
  if (b_type != ElementType::kFloat32 && r > 0)
    rows = std::min(rows, kConvertedBytes / (std::min(r, kNarrowColumns) * 4));
  return rows;
}

/// Rows from one place where a tile begins with a batch to the next.
std::int64_t span_of(const SketchSpec& spec, const cuda::StripPlan& plan) {
  return plan.tiles_per_batch == 1 ? plan.tile_rows : spec.batch_rows;
}

/// Tiles that tables for `rows` rows hold, the first and last batch cut.
std::int64_t table_tiles(const SketchSpec& spec, const cuda::StripPlan& plan, std::int64_t rows) {
  const std::int64_t span = span_of(spec, plan);
  const std::int64_t wanted = (rows / span + 2) * plan.tiles_per_batch;
  const std::int64_t most = kTableBytes / plan.table_bytes_per_tile();
  return std::max<std::int64_t>(2 * plan.tiles_per_batch, std::min(wanted, most));
}

/// Rows of whole batches that the tables cover wherever they begin.
std::int64_t covered_rows(const SketchSpec& spec, const cuda::StripPlan& plan, std::int64_t tiles) {
  return (tiles / plan.tiles_per_batch - 1) * span_of(spec, plan);
}

/// Floats of the FP32 copy; 0 where the engine reads A as it is.
std::int64_t converted_floats(const SketchSpec& spec, const cuda::StripPlan& plan, std::int64_t n, std::int64_t tiles,
                              ElementType type) {
  return plan.type == type ? 0 : covered_rows(spec, plan, tiles) * cuda::device_pitch(n);
}

/// The same of b.
std::int64_t converted_floats_of_b(const SketchSpec& spec, const cuda::StripPlan& plan, std::int64_t r,
                                   std::int64_t tiles, ElementType b_type) {
  return b_type == ElementType::kFloat32 ? 0 : covered_rows(spec, plan, tiles) * std::min(r, kNarrowColumns);
}

/// Floats of partial results for any number of tiles up to `tiles`; b goes kNarrowColumns at a time.
std::int64_t most_partials(const cuda::StripPlan& plan, const cuda::DeviceLimits& limits, std::int64_t r) {
  return std::max(cuda::partial_floats(plan, cuda::most_splits(plan, limits)),
                  cuda::narrow_partial_floats(plan, std::min(r, kNarrowColumns)));
}

}  // namespace

std::int64_t StripSketcher::bytes(const SketchSpec& whole, std::int64_t n, std::int64_t r, std::int64_t rows,
                                  ElementType type, ElementType b_type) {
  const cuda::DeviceLimits limits = limits_of_current_device();
  const SketchSpec spec = cuda::launch_share(whole);
  const cuda::StripPlan plan = plan_for(spec, n, limits, type);
  const std::int64_t tiles = table_tiles(spec, plan, rows_at_once(plan, n, r, rows, type, b_type));
  return tiles * plan.table_bytes_per_tile() +
         4 * (most_partials(plan, limits, r) + converted_floats(spec, plan, n, tiles, type) +
              converted_floats_of_b(spec, plan, r, tiles, b_type));
}

StripSketcher::StripSketcher(const SketchSpec& spec, std::int64_t n, std::int64_t r, std::int64_t rows,
                             ElementType type, ElementType b_type)
    : spec_(cuda::launch_share(spec)),
      launches_(static_cast<int>(spec.d / spec_.d)),
      plan_(plan_for(spec_, n, limits_of_current_device(), type)),
      limits_(limits_of_current_device()),
      table_tiles_(table_tiles(spec_, plan_, rows_at_once(plan_, n, r, rows, type, b_type))) {
  table_ = DeviceBuffer<std::byte>(table_tiles_ * plan_.table_bytes_per_tile());
  partials_ = DeviceBuffer<float>(most_partials(plan_, limits_, r));
  converted_ = DeviceBuffer<float>(converted_floats(spec_, plan_, n, table_tiles_, type));
  converted_b_ = DeviceBuffer<float>(converted_floats_of_b(spec_, plan_, r, table_tiles_, b_type));
}

std::int64_t StripSketcher::rows_per_table() const { return covered_rows(spec_, plan_, table_tiles_); }

void StripSketcher::add(const SlabView& a, const SlabView& b, const SketchView<float>& sketch_a,
                        const SketchView<float>& sketch_b, const CudaStream& stream) {
  // Whole batches a step, counted from the first row of the matrix, so that only the ends are cut.
  const std::int64_t span = span_of(spec_, plan_);
  for (std::int64_t begin = 0; begin < a.rows;) {
    const std::int64_t first = a.first_row + begin;
    const std::int64_t end = std::min(a.rows, (first / span * span + rows_per_table()) - a.first_row);
    for (int launch = 0; launch < launches_; ++launch) {
      fill_table(first, end - begin, launch, stream);
      apply(rows_of(a, begin, end - begin), rows_of(b, begin, end - begin), launch, sketch_a, sketch_b, stream);
    }
    begin = end;
  }
}

void StripSketcher::fill_table(std::int64_t first_row, std::int64_t rows, int launch, const CudaStream& stream) {
  check(cuda::fill_strip_table(spec_, plan_, cuda::tiles_of_rows(plan_, spec_, first_row, rows), launch * spec_.zeta,
                               table_.data(), stream.get()));
}

/// The rows as the plan reads them: themselves, or their copy in FP32.
SlabView StripSketcher::in_type_of_plan(const SlabView& a, const CudaStream& stream) {
  if (a.type == plan_.type) return a;
  const std::int64_t pitch = cuda::device_pitch(a.cols);
  assert(a.rows * pitch <= converted_.count());
  check(cuda::convert_to_float(a, converted_.data(), pitch, stream.get()));
  return {converted_.data(), a.rows, a.cols, pitch, ElementType::kFloat32, a.first_row};
}

/// Columns of b in FP32: themselves, or their copy.
SlabView StripSketcher::as_floats(const SlabView& b, const CudaStream& stream) {
  if (b.type == ElementType::kFloat32) return b;
  assert(b.rows * b.cols <= converted_b_.count());
  check(cuda::convert_to_float(b, converted_b_.data(), b.cols, stream.get()));
  return {converted_b_.data(), b.rows, b.cols, b.cols, ElementType::kFloat32, b.first_row};
}

void StripSketcher::apply(const SlabView& a, const SlabView& b, int launch, const SketchView<float>& sketch_a,
                          const SketchView<float>& sketch_b, const CudaStream& stream) {
  const cuda::TileRange tiles = cuda::tiles_of_rows(plan_, spec_, a.first_row, a.rows);
  if (tiles.count == 0) return;
  const cuda::StripGrid grid = cuda::make_strip_grid(plan_, tiles.count, limits_);
  const SlabView readable = in_type_of_plan(a, stream);
  // The rows of the launch's blocks.
  const auto share_of = [&](const SketchView<float>& sketch) {
    return SketchView<float>{sketch.data + launch * spec_.d * sketch.pitch, spec_.d, sketch.cols, sketch.pitch};
  };
  const SketchView<float> share_a = share_of(sketch_a), share_b = share_of(sketch_b);
  check(
      cuda::strip_sketch(spec_, plan_, readable, table_.data(), tiles, grid, partials_.data(), share_a, stream.get()));
  for (std::int64_t first = 0; first < b.cols; first += kNarrowColumns) {
    const std::int64_t cols = std::min(kNarrowColumns, b.cols - first);
    const auto* const from = static_cast<const std::byte*>(b.data) + first * element_size(b.type);
    const SlabView columns{from, b.rows, cols, b.pitch, b.type, b.first_row};
    check(cuda::strip_sketch_narrow(spec_, plan_, as_floats(columns, stream), table_.data(), tiles, partials_.data(),
                                    {share_b.data + first, share_b.rows, cols, share_b.pitch}, stream.get()));
  }
}

}  // namespace tallsketch
