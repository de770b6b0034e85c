#include "src/cuda_strip.h"

#include <algorithm>

namespace tallsketch {

namespace {

// The table of 2^25 rows at zeta = 4: with n = 64 a thirty-second of the 8.6 GB that it serves. Larger tables save
// nothing; smaller ones end and restart the strips more often.
constexpr std::int64_t kTableBytes = std::int64_t{288} << 20;

cuda::DeviceLimits limits_of_current_device() {
  int device = 0, multiprocessors = 0, shared = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return {multiprocessors, shared};
}

}  // namespace

bool StripSketcher::serves(const SketchSpec& spec, std::int64_t n) {
  int device = 0, major = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9 && cuda::make_strip_plan(spec, n, limits_of_current_device()).served;
}

std::int64_t StripSketcher::bytes(const SketchSpec& spec, std::int64_t n, std::int64_t r, std::int64_t rows) {
  const cuda::DeviceLimits limits = limits_of_current_device();
  const cuda::StripPlan plan = cuda::make_strip_plan(spec, n, limits);
  const std::int64_t tiles = rows / std::max<std::int64_t>(1, plan.tile_rows) + 2 * plan.tiles_per_batch + 1;
  const cuda::StripGrid grid = cuda::make_strip_grid(plan, tiles, limits);
  return std::min(kTableBytes, tiles * plan.table_bytes_per_tile()) +
         4 * std::max(cuda::partial_floats(plan, grid.splits), cuda::narrow_partial_floats(plan, r));
}

StripSketcher::StripSketcher(const SketchSpec& spec, std::int64_t n, std::int64_t rows)
    : spec_(spec), limits_(limits_of_current_device()) {
  plan_ = cuda::make_strip_plan(spec, n, limits_);
  tile_span_ = spec.batch_rows * plan_.batches_per_tile / plan_.tiles_per_batch;
  const std::int64_t wanted = rows / std::max<std::int64_t>(1, tile_span_) + 2 * plan_.tiles_per_batch + 1;
  const std::int64_t most =
      std::max<std::int64_t>(4 * plan_.tiles_per_batch, kTableBytes / plan_.table_bytes_per_tile());
  table_tiles_ = std::min(wanted, most);
  table_ = DeviceBuffer<std::byte>(table_tiles_ * plan_.table_bytes_per_tile());
}

void StripSketcher::add(const SlabView& a, const SlabView& b, const SketchView<float>& sketch_a,
                        const SketchView<float>& sketch_b, const CudaStream& stream) {
  // Whole batches a step, counted from the first row of the matrix, so that only the ends are cut.
  const std::int64_t span = spec_.batch_rows * plan_.batches_per_tile;
  const std::int64_t step = std::max<std::int64_t>(1, (table_tiles_ / plan_.tiles_per_batch - 1)) * span;
  for (std::int64_t begin = 0; begin < a.rows;) {
    const std::int64_t first = a.first_row + begin;
    const std::int64_t end = std::min(a.rows, (first / span * span + step) - a.first_row);
    const auto part = [&](const SlabView& slab) {
      return SlabView{static_cast<const float*>(slab.data) + begin * slab.pitch,
                      end - begin,
                      slab.cols,
                      slab.pitch,
                      slab.type,
                      first};
    };
    fill_table(first, end - begin, stream);
    apply(part(a), part(b), sketch_a, sketch_b, stream);
    begin = end;
  }
}

void StripSketcher::fill_table(std::int64_t first_row, std::int64_t rows, const CudaStream& stream) {
  check(cuda::fill_strip_table(spec_, plan_, cuda::tiles_of_rows(plan_, spec_, first_row, rows), table_.data(),
                               stream.get()));
}

void StripSketcher::apply(const SlabView& a, const SlabView& b, const SketchView<float>& sketch_a,
                          const SketchView<float>& sketch_b, const CudaStream& stream) {
  const cuda::TileRange tiles = cuda::tiles_of_rows(plan_, spec_, a.first_row, a.rows);
  if (tiles.count == 0) return;
  const cuda::StripGrid grid = cuda::make_strip_grid(plan_, tiles.count, limits_);
  const std::int64_t floats =
      std::max(cuda::partial_floats(plan_, grid.splits), cuda::narrow_partial_floats(plan_, b.cols));
  if (partials_.count() < floats) partials_ = DeviceBuffer<float>(floats);  // the first chunk is the largest
  check(cuda::strip_sketch(spec_, plan_, a, table_.data(), tiles, grid, partials_.data(), sketch_a, stream.get()));
  check(cuda::strip_sketch_narrow(spec_, plan_, b, table_.data(), tiles, partials_.data(), sketch_b, stream.get()));
}

}  // namespace tallsketch
