// The fused kernel of the refinement pass. Words: normal_product_plan.h. Why it is fast: tiles of whole rows, which lie
// in memory one behind the other, come by one bulk copy each, several ahead; every element is read from shared memory
// and widened to FP64 once, and stays in registers between the dot product and the update of the gradient; the sums over
// lanes, which make a team wait, are taken for several rows together, while other teams work.
#include "kernels/normal_product.h"

#include <algorithm>
#include <bit>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/launch_shape.h"
#include "kernels/normal_product_simple.h"
#include "kernels/normal_product_tensor.h"
#include "kernels/right_hand_sides.h"
#include "kernels/rounding.h"
#include "kernels/row_pieces.h"
#include "kernels/tma.h"

namespace tallsketch::cuda {

namespace {

constexpr std::int64_t kMostTiles = std::int64_t{1} << 30;  // of half a kilobyte at least: no device holds so many

struct PassShape {
  const std::byte* a;
  RightHandSides b;
  std::int64_t b_step;  // bytes of b from a team's tile to its next one
  const double* x;
  double* partials;  // (CTA, n + 1, rhs)
  std::int64_t row_bytes;
  std::int32_t n, x_pitch;
  std::int32_t tiles, tile_rows, last_rows;  // last_rows: of the last tile
  std::int32_t row_lanes, team_warps, teams, stages;
  std::int32_t team_span;  // team_warps rounded up to a power of two
};

// Older architectures have no bulk copies; the plan keeps their empty kernel from being launched.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kMostWarps = most_warps(1);

template <class T>
inline constexpr int kChunk = 16 / sizeof(T);  // elements of a lane's piece

/// Where a thread stands.
struct Position {
  int lane, warp;
  int team, warp_of_team;
  int lane_of_row;  // among the lanes that hold a row
  int first_lane;   // of its warp, of those
};

__device__ Position position_of(const PassShape& shape) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32, warp = thread / 32, warp_of_team = warp % shape.team_warps;
  const int lane_of_row = warp_of_team * 32 + lane % shape.row_lanes;
  return {lane, warp, warp / shape.team_warps, warp_of_team, lane_of_row, lane / shape.row_lanes * shape.row_lanes};
}

/// Rows that lie in a tile; 0 beyond the last one.
__device__ std::int32_t rows_of_tile(const PassShape& shape, std::int32_t tile) {
  const std::int32_t last = shape.tiles - 1;
  return tile < last ? shape.tile_rows : tile == last ? shape.last_rows : 0;
}

/// A team's share of A: tiles first, first + step, ..., and its ring in shared memory.
class TileStream {
 public:
  __device__ TileStream(const PassShape& shape, const Position& at, std::byte* rings, std::uint64_t* barriers)
      : shape_(shape),
        tile_bytes_(static_cast<std::uint32_t>(shape.tile_rows * shape.row_bytes)),
        ring_(shared_address(rings) + static_cast<std::uint32_t>(at.team * shape.stages) * tile_bytes_),
        full_(shared_address(barriers + at.team * kMostStages)),
        leads_(at.warp_of_team == 0 && at.lane == 0),
        tile_(static_cast<std::int32_t>(blockIdx.x) * shape.teams + at.team),
        step_(static_cast<std::int32_t>(gridDim.x) * shape.teams) {
    if (!leads_) return;
    for (int stage = 0; stage < shape_.stages; ++stage) barrier_init(full_ + 8 * stage, 1);
    barrier_init_fence();
  }

  /// All threads of the CTA have constructed theirs and synchronised: the first tiles are fetched.
  __device__ void start() const {
    if (!leads_) return;
    for (int stage = 0; stage < shape_.stages; ++stage) fetch(tile_ + stage * step_, static_cast<std::uint32_t>(stage));
  }

  __device__ bool ended() const { return tile_ >= shape_.tiles; }
  __device__ std::int32_t current() const { return tile_; }
  __device__ std::int32_t next() const { return tile_ + step_; }

  /// Address of the tile in shared memory, once it is there.
  __device__ std::uint32_t wait() const {
    barrier_wait(full_ + 8 * place_.stage, place_.parity);
    return ring_ + place_.stage * tile_bytes_;
  }

  /// The team has read the tile: its memory is filled again, and the next tile comes up.
  __device__ void advance() {
    if (leads_) fetch(tile_ + shape_.stages * step_, place_.stage);
    place_.advance(static_cast<std::uint32_t>(shape_.stages));
    tile_ += step_;
  }

 private:
  __device__ void fetch(std::int32_t tile, std::uint32_t stage) const {
    if (tile >= shape_.tiles) return;
    const auto bytes = static_cast<std::uint32_t>(rows_of_tile(shape_, tile) * shape_.row_bytes);
    barrier_expect_bytes(full_ + 8 * stage, bytes);
    copy_bulk(ring_ + stage * tile_bytes_, shape_.a + std::int64_t{tile} * tile_bytes_, bytes, full_ + 8 * stage);
  }

  const PassShape& shape_;
  std::uint32_t tile_bytes_, ring_, full_;
  bool leads_;
  std::int32_t tile_, step_;
  Ring place_;
};

/// The pieces of a row in a lane.
template <class T>
struct Pieces {
  std::int32_t first, stride;  // columns at which they begin: first, first + stride, ...
  std::uint32_t last_offset;   // bytes from the start of a row to its last piece
  bool cut;                    // whether the row ends inside a piece, and this lane reads it

  __device__ std::int32_t column(int piece) const { return first + piece * stride; }
  /// Bytes from the start of a row. Pieces beyond the end read the last one; x and the gradient have no such columns.
  __device__ std::uint32_t offset(int piece) const {
    const auto wanted = static_cast<std::uint32_t>(column(piece)) * static_cast<std::uint32_t>(sizeof(T));
    return wanted < last_offset ? wanted : last_offset;
  }
};

template <class T>
__device__ Pieces<T> pieces_of(const PassShape& shape, const Position& at, int pieces) {
  const std::int32_t stride = shape.row_lanes * shape.team_warps * kChunk<T>;
  const std::int32_t first = at.lane_of_row * kChunk<T>;
  const auto last = static_cast<std::uint32_t>((shape.n - 1) / kChunk<T> * 16);
  return {first, stride, last, shape.n % kChunk<T> != 0 && first + (pieces - 1) * stride + kChunk<T> > shape.n};
}

/// This lane's columns of rows in shared memory, all loads before the first use. Rows beyond the last are read as that
/// one; their residuals will be 0.
/// tile  address of row 0
template <class T, int kChunks, int kRows>
__device__ void load_rows(double (&values)[kRows][kChunks * kChunk<T>], std::uint32_t tile, std::uint32_t row_bytes,
                          std::int32_t first, std::int32_t last, std::int32_t n, const Pieces<T>& pieces) {
  uint4 words[kRows][kChunks];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const auto row = static_cast<std::uint32_t>(first + i < last ? first + i : last);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      words[i][chunk] = load_16_bytes(tile + row * row_bytes + pieces.offset(chunk));
    }
  }
  if (pieces.cut) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const std::int32_t kept_bytes = (n - pieces.column(chunk)) * static_cast<std::int32_t>(sizeof(T));
#pragma unroll
      for (int i = 0; i < kRows; ++i) clear_behind(words[i][chunk], kept_bytes);
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) widen<T>(values[i] + chunk * kChunk<T>, words[i][chunk]);
  }
}

/// Sums kCount numbers over the `lanes` lanes that share a row; lane l gets the sum of number l mod kCount. Every step
/// halves the numbers that a lane carries on, so that it costs kCount + log2(lanes / kCount) exchanges.
template <int kCount>
__device__ double shared_sums(double (&numbers)[kCount], int lane, int lanes) {
#pragma unroll
  for (int half = kCount / 2; half >= 1; half /= 2) {
    const bool upper = (lane & half) != 0;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const double kept = upper ? numbers[k + half] : numbers[k];
      const double given = upper ? numbers[k] : numbers[k + half];
      numbers[k] = kept + __shfl_xor_sync(kWarp, given, half);
    }
  }
  return sum_over_lanes(numbers[0], kCount, lanes);
}

/// Sums of the warps, [warp][number], on their way to the other warps of a team.
using WarpSums = double[kMostWarps][8];

/// Adds up what the warps of a team have of the kCount numbers; lane l gives and gets number l mod kCount.
template <int kCount>
__device__ double sum_over_team(double sum, WarpSums& sums, const PassShape& shape, const Position& at) {
  if (at.lane < kCount) sums[at.warp][at.lane] = sum;
  // Barrier 0 is __syncthreads'; teams of several warps are at most 8.
  asm volatile("bar.sync %0, %1;" ::"r"(1 + at.team), "r"(shape.team_warps * 32) : "memory");
  const int readers = shape.team_span < 32 / kCount ? shape.team_span : 32 / kCount;  // lanes that share a number
  const int first_warp = at.warp - at.warp_of_team;
  sum = 0.0;
#pragma unroll 1
  for (int warp = at.lane / kCount & (readers - 1); warp < shape.team_warps; warp += readers) {
    sum += sums[first_warp + warp][at.lane % kCount];
  }
  return sum_over_lanes(sum, kCount, kCount * readers);
}

/// Adds the registers of all teams, one after the other, into `sums`, (n, kRhs) in shared memory.
template <class T, int kChunks, int kRhs>
__device__ void add_up_gradients(double* sums, double (&gradient)[kChunks * kChunk<T>][kRhs], const PassShape& shape,
                                 const Position& at, const Pieces<T>& pieces) {
  for (int team = 0; team < shape.teams; ++team) {
    __syncthreads();
    if (team != at.team) continue;
#pragma unroll
    for (int k = 0; k < kChunks * kChunk<T>; ++k) {
      const std::int32_t column = pieces.column(k / kChunk<T>) + k % kChunk<T>;
#pragma unroll
      for (int q = 0; q < kRhs; ++q) {
        double sum = gradient[k][q];
        for (int bit = shape.row_lanes; bit < 32; bit *= 2) sum += __shfl_xor_sync(kWarp, sum, bit);
        if (column >= shape.n || at.lane >= shape.row_lanes) continue;
        sums[column * kRhs + q] = team == 0 ? sum : sums[column * kRhs + q] + sum;
      }
    }
  }
}

/// Adds the lanes' squares into `sums`, (kRhs) in shared memory; lane l has those of right-hand side l mod kRhs.
template <int kRhs>
__device__ void add_up_squares(double* sums, double squares, WarpSums& warp_sums, const PassShape& shape,
                               const Position& at) {
  squares = sum_over_lanes(squares, kRhs, 32);
  __syncthreads();  // the last tiles' sums have been read
  if (at.lane < kRhs) warp_sums[at.warp][at.lane] = squares;
  __syncthreads();
  if (threadIdx.x >= kRhs) return;
  double sum = 0.0;
  for (int warp = 0; warp < shape.teams * shape.team_warps; ++warp) sum += warp_sums[warp][threadIdx.x];
  sums[threadIdx.x] = sum;
}

/// A thread's columns of x and of the gradient stay in registers from the first tile to the last.
template <class T, int kChunks, int kRhs>
__global__ void __launch_bounds__(most_warps(kRhs) * 32, 1)
    normal_product_kernel(const __grid_constant__ PassShape shape) {
  constexpr int kColumns = kChunks * kChunk<T>;
  constexpr int kRows = rows_at_once(kColumns, kRhs);
  constexpr int kProducts = kRows * kRhs;  // lane l looks after number l mod kProducts of its rows'
  static_assert(kProducts <= 8);
  extern __shared__ __align__(128) std::byte rings[];
  __shared__ __align__(8) std::uint64_t barriers[kMostWarps * kMostStages];
  __shared__ WarpSums warp_sums[2];
  const Position at = position_of(shape);
  TileStream tiles(shape, at, rings, barriers);
  __syncthreads();
  tiles.start();
  const Pieces<T> pieces = pieces_of<T>(shape, at, kChunks);
  const auto row_bytes = static_cast<std::uint32_t>(shape.row_bytes);
  const int first_row = at.first_lane / shape.row_lanes * kRows;  // of the tile's, in this lane
  const int row_of_product = first_row + at.lane % kProducts / kRhs;
  const int rhs_of_product = at.lane % kRhs;
  const bool exists = rhs_of_product < shape.b.count;

  double x[kColumns][kRhs], gradient[kColumns][kRhs];
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const std::int32_t column = pieces.column(k / kChunk<T>) + k % kChunk<T>;
#pragma unroll
    for (int q = 0; q < kRhs; ++q) {
      x[k][q] = column < shape.n && q < shape.b.count ? shape.x[std::int64_t{column} * shape.x_pitch + q] : 0.0;
      gradient[k][q] = 0.0;
    }
  }

  const std::byte* b_at =
      shape.b.address(std::int64_t{tiles.current()} * shape.tile_rows + row_of_product, rhs_of_product);
  const auto next_b_of = [&](std::int32_t tile) {
    const bool there = exists && shape.b.data != nullptr && row_of_product < rows_of_tile(shape, tile);
    const double value = there ? shape.b.load(b_at) : 0.0;
    b_at += shape.b_step;
    return value;
  };
  double squares = 0.0, next_b = next_b_of(tiles.current());
  int side = 0;  // of warp_sums: a warp may be one tile ahead of another of its team
  while (!tiles.ended()) {
    const std::int32_t rows = rows_of_tile(shape, tiles.current());
    const double b = next_b;
    next_b = next_b_of(tiles.next());  // one tile ahead: it comes from device memory
    double a[kRows][kColumns];
    load_rows<T, kChunks, kRows>(a, tiles.wait(), row_bytes, first_row, rows - 1, shape.n, pieces);

    double products[kProducts] = {};
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
#pragma unroll
      for (int p = 0; p < kProducts; ++p) products[p] = fma(a[p / kRhs][k], x[k][p % kRhs], products[p]);
    }
    double product = shared_sums<kProducts>(products, at.lane, shape.row_lanes);
    if (shape.team_warps > 1) {
      product = sum_over_team<kProducts>(product, warp_sums[side], shape, at);
      side ^= 1;
    } else {
      __syncwarp();
    }
    tiles.advance();  // all warps of the team have read the tile

    const double residual = exists && row_of_product < rows ? b - product : 0.0;
    squares = fma(residual, residual, squares);
#pragma unroll
    for (int p = 0; p < kProducts; ++p) {
      const double factor = __shfl_sync(kWarp, residual, at.first_lane + p);
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        gradient[k][p % kRhs] = fma(a[p / kRhs][k], factor, gradient[k][p % kRhs]);
      }
    }
  }

  auto* const sums = reinterpret_cast<double*>(rings);
  add_up_gradients<T, kChunks, kRhs>(sums, gradient, shape, at, pieces);
  const bool counts = at.warp_of_team == 0 && at.lane - at.first_lane < kProducts;
  add_up_squares<kRhs>(sums + shape.n * kRhs, counts ? squares : 0.0, warp_sums[0], shape, at);
  __syncthreads();
  const int count = (shape.n + 1) * kRhs;
  double* const out = shape.partials + std::int64_t{blockIdx.x} * count;
  for (auto k = static_cast<int>(threadIdx.x); k < count; k += static_cast<int>(blockDim.x)) out[k] = sums[k];
}

#else

template <class T, int kChunks, int kRhs>
__global__ void normal_product_kernel(const __grid_constant__ PassShape) {}

#endif

/// Adds the partial results of all CTAs, in order of eight strands of them.
constexpr int kFinishLanes = 8;

struct FinishShape {
  const double* partials;
  double* gradient;
  double* residual_squares;
  std::int64_t n, pitch;
  std::int32_t ctas, rhs, used;
};

__global__ void __launch_bounds__(32 * kFinishLanes) finish_kernel(const FinishShape shape) {
  __shared__ double strands[kFinishLanes][32];
  const std::int64_t count = (shape.n + 1) * shape.rhs;
  const std::int64_t k = std::int64_t{blockIdx.x} * 32 + threadIdx.x;
  double sum = 0.0;
  if (k < count) {
    for (std::int32_t cta = static_cast<std::int32_t>(threadIdx.y); cta < shape.ctas; cta += kFinishLanes) {
      sum += shape.partials[cta * count + k];
    }
  }
  strands[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const std::int64_t column = k / shape.rhs, q = k % shape.rhs;
  if (threadIdx.y != 0 || k >= count || q >= shape.used) return;
  for (int strand = 1; strand < kFinishLanes; ++strand) sum += strands[strand][threadIdx.x];
  double* const out = column < shape.n ? shape.gradient + column * shape.pitch + q : shape.residual_squares + q;
  *out += sum;
}

// Launching --------------------------------------------------------------------------------------------------------

template <class T, int kChunks, int kRhs>
cudaError_t launch(const NormalProductPlan& plan, const PassShape& shape, unsigned ctas, cudaStream_t stream) {
  const auto kernel = normal_product_kernel<T, kChunks, kRhs>;
  const auto shared = static_cast<int>(plan.shared_bytes);
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (status != cudaSuccess) return status;
  kernel<<<ctas, static_cast<unsigned>(plan.warps()) * 32, static_cast<std::size_t>(shared), stream>>>(shape);
  return cudaGetLastError();
}

template <class T, int kChunks>
cudaError_t launch_for_rhs(const NormalProductPlan& plan, const PassShape& shape, unsigned ctas, cudaStream_t stream) {
  if (plan.rhs == 1) return launch<T, kChunks, 1>(plan, shape, ctas, stream);
  if (plan.rhs == 2) return launch<T, kChunks, 2>(plan, shape, ctas, stream);
  return launch<T, kChunks, 4>(plan, shape, ctas, stream);
}

/// The shapes that make_normal_product_plan chooses from: one piece a lane, 8 columns, 16 columns.
template <class T>
cudaError_t launch_for_type(const NormalProductPlan& plan, const PassShape& shape, unsigned ctas, cudaStream_t stream) {
  constexpr int kElements = 16 / sizeof(T);
  if (plan.chunks == 1) return launch_for_rhs<T, 1>(plan, shape, ctas, stream);
  if (plan.lane_columns() == 8) return launch_for_rhs<T, 8 / kElements>(plan, shape, ctas, stream);
  return launch<T, 16 / kElements, 1>(plan, shape, ctas, stream);
}

cudaError_t launch_fused(const NormalProductPlan& plan, const SlabView& a, const PassShape& shape, unsigned ctas,
                         cudaStream_t stream) {
  switch (a.type) {
    case ElementType::kFloat32: return launch_for_type<float>(plan, shape, ctas, stream);
    case ElementType::kFloat64: return launch_for_type<double>(plan, shape, ctas, stream);
    case ElementType::kFloat16: return launch_for_type<__half>(plan, shape, ctas, stream);
    case ElementType::kBfloat16: return launch_for_type<__nv_bfloat16>(plan, shape, ctas, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t normal_product(const NormalProductPlan& plan, const SlabView& a, const SlabView& b, const double* x,
                           double* scratch, double* gradient, double* residual_squares, cudaStream_t stream) {
  const bool b_known = b.type == ElementType::kFloat64 || b.type == ElementType::kFloat32;
  if (a.type != plan.type || a.cols != plan.n || a.pitch != plan.pitch || !b_known) return cudaErrorInvalidValue;
  if (a.rows == 0) return cudaSuccess;
  const bool fused = plan.fused && reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0;
  const std::int64_t tile_rows = fused ? plan.tile_rows : kSimpleRows;
  const std::int64_t tiles = divide_up(a.rows, tile_rows);
  if (fused && tiles > kMostTiles) return cudaErrorInvalidValue;
  const std::int64_t busy = divide_up(tiles, fused ? plan.teams : 1);
  const auto ctas = static_cast<unsigned>(std::min<std::int64_t>(busy, plan.multiprocessors));
  for (std::int64_t first = 0; first < b.cols; first += plan.rhs) {
    const RightHandSides rhs = rhs_from(b, first, plan.rhs);
    cudaError_t status;
    if (fused && plan.tensor) {
      status = launch_tensor_normal_product(plan, a, rhs, x + first, b.cols, scratch, ctas, stream);
    } else if (fused) {
      const PassShape shape{static_cast<const std::byte*>(a.data),
                            rhs,
                            ctas * plan.teams * tile_rows * rhs.row_bytes,
                            x + first,
                            scratch,
                            a.pitch * element_size(a.type),
                            static_cast<std::int32_t>(a.cols),
                            static_cast<std::int32_t>(b.cols),
                            static_cast<std::int32_t>(tiles),
                            plan.tile_rows,
                            static_cast<std::int32_t>(a.rows - (tiles - 1) * tile_rows),
                            plan.row_lanes,
                            plan.team_warps,
                            plan.teams,
                            plan.stages,
                            static_cast<std::int32_t>(std::bit_ceil(static_cast<unsigned>(plan.team_warps)))};
      status = launch_fused(plan, a, shape, ctas, stream);
    } else {
      status = launch_simple_normal_product(a, rhs, x + first, b.cols, plan.rhs, scratch, ctas, stream);
    }
    if (status != cudaSuccess) return status;
    const FinishShape finish{scratch,  gradient + first, residual_squares + first,
                             a.cols,   b.cols,           static_cast<std::int32_t>(ctas),
                             plan.rhs, rhs.count};
    finish_kernel<<<static_cast<unsigned>(divide_up((a.cols + 1) * plan.rhs, 32)), dim3(32, kFinishLanes), 0, stream>>>(
        finish);
    status = cudaGetLastError();
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace tallsketch::cuda
