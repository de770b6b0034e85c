// The tensor-core kernel of the refinement pass. Words: normal_product_plan.h. Both products are matrix products with
// few columns: A x, (rows, n) (n, rhs), and A^T times the residuals, (n, rows) (rows, rhs). Tensor cores add up over
// lanes, which is what the other kernel spends its time on, and need x and the gradient in few registers. In return A
// is read from shared memory and widened twice, because the two products want an element in different lanes.
#include "kernels/normal_product_tensor.h"

#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/rounding.h"
#include "kernels/row_pieces.h"
#include "kernels/tma.h"

namespace tallsketch::cuda {

namespace {

struct TensorShape {
  const std::byte* a;
  RightHandSides b;
  std::int64_t b_step;  // bytes of b from a team's tile to its next one
  const double* x;
  double* partials;  // (CTA, n + 1, rhs)
  std::int64_t row_bytes;
  std::int64_t a_step;  // bytes of A from a team's tile to its next one
  std::int32_t n, x_pitch;
  std::int32_t tiles, last_rows;  // last_rows: of the last tile
  std::int32_t team_warps, teams, stages;
  std::int32_t copy_warps;     // of a team: the first, which fetch its rows
  std::uint32_t rings_bytes;   // of all teams
  std::uint32_t copied_bytes;  // of a row
  std::uint32_t pitch_bytes;   // from row to row in shared memory
};

// Older architectures have neither bulk copies nor these products; the plan keeps their empty kernel from running.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kRhs = kTensorRhs;
constexpr int kRows = kTensorRows;
constexpr int kNumbers = kRows * kRhs;  // of a tile
constexpr int kMostWarps = most_tensor_warps(2);
constexpr int kAhead = 4;  // tiles whose right-hand sides lie in shared memory, or are on their way

/// Where a thread stands.
struct Position {
  int lane, warp;
  int team, warp_of_team;
  int quad, of_quad;  // lane / 4, lane % 4
};

__device__ Position position_of(const TensorShape& shape) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32, warp = thread / 32;
  return {lane, warp, warp / shape.team_warps, warp % shape.team_warps, lane / 4, lane % 4};
}

/// Rows that lie in a tile; 0 beyond the last one.
__device__ std::int32_t rows_of_tile(const TensorShape& shape, std::int32_t tile) {
  const std::int32_t last = shape.tiles - 1;
  return tile < last ? kRows : tile == last ? shape.last_rows : 0;
}

/// Numbers of a tile, [row][right-hand side]: sums of half a warp's columns, or a team's. The spare ones put those that
/// are written or read together into different banks.
using Numbers = double[kNumbers + 4];

/// What lies in shared memory beside the rings; a team's part of it behind the rings.
struct Board {
  alignas(16) Numbers products[2][2 * kMostWarps];  // [side of the step][warp and half of its columns]
  std::uint64_t full[kMostWarps][kMostStages];      // barriers: the copies of a stage's tile have arrived
  std::uint64_t stepped[kMostWarps];                // the warps of a team have written what their step gives
};

struct TeamBoard {
  alignas(16) Numbers residuals[2];
  double b[kAhead][kNumbers];  // as it came: in FP32, perhaps
};
static_assert(sizeof(TeamBoard) == kTensorTeamBytes && sizeof(Board) <= kTensorStaticBytes);

/// Zeros behind the rows, where lanes read whose columns do not exist; copies do not reach there.
__device__ void clear_pads(const TensorShape& shape, std::byte* rings) {
  const std::uint32_t rows = static_cast<std::uint32_t>(shape.teams * shape.stages) * kRows;
  const std::uint32_t words = (shape.pitch_bytes - shape.copied_bytes) / 16;
  for (std::uint32_t k = threadIdx.x; k < rows * words; k += blockDim.x) {
    const std::uint32_t offset = k / words * shape.pitch_bytes + shape.copied_bytes + k % words * 16;
    *reinterpret_cast<uint4*>(rings + offset) = {};
  }
}

/// A team's work, by one of its threads. A warp has 32 kGroups columns. Step i: the products A x of the team's tile i;
/// the residuals of tile i - 1, by the last warps; the gradient of tile i - 2. None of the three waits for another, and
/// what they need of other warps was written in the step before: a warp may be nearly a step ahead of the others.
template <class T, int kGroups>
class TensorPass {
 public:
  __device__ TensorPass(const TensorShape& shape, const Position& at, std::byte* rings, Board& board,
                        TeamBoard& team_board)
      : shape_(shape),
        at_(at),
        tile_bytes_(kRows * shape.pitch_bytes),
        ring_(kept_address(rings) + static_cast<std::uint32_t>(at.team * shape.stages) * tile_bytes_),
        full_(kept_address(board.full[at.team])),
        stepped_(kept_address(&board.stepped[at.team])),
        step_(static_cast<std::int32_t>(gridDim.x) * shape.teams),
        tile_(static_cast<std::int32_t>(blockIdx.x) * shape.teams + at.team),
        first_column_(at.warp_of_team * 32 * kGroups),
        cut_(shape.n * kSize % 16 != 0 && first_column_ + 32 * kGroups > shape.n),
        row_of_quad_((at.quad & 4) | (at.quad & 1) << 1 | (at.quad & 2) >> 1),
        copies_(at.lane == 0 && at.warp_of_team < shape.copy_warps),
        first_number_((shape.team_warps - 1 - at.warp_of_team) * kNumbersOfWarp),
        reduces_(first_number_ < kNumbers) {
    const int number_of_lane = 2 * at.of_quad + at.quad % 2;
    number_ = first_number_ + number_of_lane;
    next_numbers_ = shape.team_warps * kNumbersOfWarp;
    has_b_ = at.quad < 2 && number_ % kRhs < shape.b.count && shape.b.data != nullptr;
    // Addresses of what this lane writes and reads on the boards.
    products_out_ =
        kept_address(&board.products[0][2 * at.warp + at.of_quad / 2][row_of_quad_ * kRhs + 2 * (at.of_quad % 2)]);
    const int first_part = 2 * (at.warp - at.warp_of_team) + at.of_quad;
    parts_ = kept_address(&board.products[0][first_part][(reduces_ ? first_number_ : 0) + at.quad]);
    residuals_out_ = kept_address(&team_board.residuals[0][reduces_ ? number_ : 0]);
    residuals_in_ = kept_address(&team_board.residuals[0][at.of_quad * kRhs + at.quad % kRhs]);
    b_numbers_ = kept_address(&team_board.b[0][reduces_ ? number_ : 0]);
    if (at.warp_of_team != 0 || at.lane != 0) return;
#pragma unroll 1
    for (int stage = 0; stage < shape.stages; ++stage) barrier_init(full_ + 8 * stage, 1);
    barrier_init(stepped_, static_cast<unsigned>(shape.team_warps));
    barrier_init_fence();
  }

  /// All threads of the CTA have constructed theirs and synchronised: the first tiles are fetched.
  __device__ void start() {
    a_ = shape_.a + (std::int64_t{tile_} * kRows + at_.warp_of_team) * shape_.row_bytes;
    if (copies_) {
      for (std::int32_t k = 0; k + kBehind < shape_.stages; ++k) {
        fetch(tile_ + k * step_, static_cast<std::uint32_t>(k));
      }
    }
    b_ = shape_.b.address(std::int64_t{tile_} * kRows + number_ / kRhs, number_ % kRhs);
    if (reduces_) fetch_b(tile_, 0);
#pragma unroll
    for (int k = 0; k < 2 * kGroups; ++k) {
      const std::int32_t q = at_.quad % 4;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::int32_t column = first_column_ + 16 * k + kPieceColumns * at_.of_quad + 2 * (at_.quad / 4) + i;
        x_[k][i] = column < shape_.n && q < shape_.b.count ? shape_.x[std::int64_t{column} * shape_.x_pitch + q] : 0.0;
      }
    }
  }

  __device__ void run() {
    const std::int32_t full_tiles = shape_.last_rows == kRows ? shape_.tiles : shape_.tiles - 1;
    step<false, false>();
    step<false, false>();
    if (!cut_) {
      if (reduces_) {
        while (tile_ < full_tiles) step<true, true>();
      } else {
        while (tile_ < full_tiles) step<true, false>();
      }
    }
    while (rows_[1] != 0 || rows_[2] != 0 || tile_ < shape_.tiles) step<false, false>();
  }

  /// Adds this thread's part of the gradient to the sums, (n, rhs) in shared memory.
  __device__ void add_gradient(double* sums, bool first) const {
    if (at_.of_quad >= kRhs / 2) return;
#pragma unroll
    for (int k = 0; k < 2 * kGroups; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int32_t column = first_column_ + 16 * (k / 2 * 2) + kPieceColumns * at_.quad + 2 * (k % 2) + i / 2;
        if (column >= shape_.n) continue;
        double& sum = sums[column * kRhs + 2 * at_.of_quad + i % 2];
        sum = first ? gradient_[k][i] : sum + gradient_[k][i];
      }
    }
  }

  /// This thread's squares as numbers of a tile.
  __device__ void write_squares(Numbers& squares) const {
    if (at_.quad >= 2) return;
    for (int beyond = 0; beyond + first_number_ < kNumbers; beyond += next_numbers_) {
      squares[number_ + beyond] = beyond == 0 ? squares_ : 0.0;
    }
  }

 private:
  static constexpr auto kSize = static_cast<std::int32_t>(sizeof(T));
  static constexpr auto kSizeOfNumbers = static_cast<std::uint32_t>(sizeof(Numbers));
  static constexpr int kBehind = 3;         // stages that are not being filled: of the tiles that a step works on
  static constexpr int kNumbersOfWarp = 8;  // whose sums a warp adds up at a time
  static constexpr int kMostParts = (most_tensor_warps(kGroups) + 3) / 4;  // of eight sums each

  __device__ std::uint32_t stage_before(std::uint32_t tiles) const {
    const auto stages = static_cast<std::uint32_t>(shape_.stages);
    const std::uint32_t stage = place_.stage + stages - tiles;
    return stage < stages ? stage : stage - stages;
  }

  /// By one lane of each of the first warps of the team: they share the rows out. What a warp copies may arrive before
  /// the first has said how many bytes will; the barrier's phase waits for that too.
  __device__ __forceinline__ void fetch(std::int32_t tile, std::uint32_t stage) {
    if (tile >= shape_.tiles) return;
    const std::int32_t rows = rows_of_tile(shape_, tile);
    const std::uint32_t barrier = full_ + 8 * stage;
    if (at_.warp_of_team == 0) barrier_expect_bytes(barrier, static_cast<std::uint32_t>(rows) * shape_.copied_bytes);
    const std::byte* from = a_;
    for (std::int32_t row = at_.warp_of_team; row < rows; row += shape_.copy_warps) {
      copy_bulk(ring_ + stage * tile_bytes_ + static_cast<std::uint32_t>(row) * shape_.pitch_bytes, from,
                shape_.copied_bytes, barrier);
      from += shape_.copy_warps * shape_.row_bytes;
    }
    a_ += shape_.a_step;
  }

  // Residuals. A warp adds up the products of kNumbersOfWarp numbers by tensor cores: b - (1 1 1 ...) (products of the
  // warps, 8). All rows of the result are equal; of the first two, lanes 0 to 7 keep one number each.

  /// kNumbersOfWarp numbers, `beyond` the warp's first: 0, and more in teams of less than four warps.
  __device__ __forceinline__ void fetch_numbers_of_b(std::int32_t rows, std::uint32_t slot, int beyond) {
    const int row = (number_ + beyond) / kRhs;
    copy_number(b_numbers_ + slot * (kNumbers * 8) + static_cast<std::uint32_t>(beyond * 8),
                b_ + beyond / kRhs * shape_.b.row_bytes, shape_.b.is_double, row < rows);
  }

  /// b_ stands at the tile.
  __device__ __forceinline__ void fetch_b(std::int32_t tile, std::uint32_t slot) {
    if (has_b_) {
      const std::int32_t rows = rows_of_tile(shape_, tile);
      fetch_numbers_of_b(rows, slot, 0);
#pragma unroll 1
      for (int beyond = next_numbers_; beyond + first_number_ < kNumbers; beyond += next_numbers_) {
        fetch_numbers_of_b(rows, slot, beyond);
      }
    }
    b_ += shape_.b_step;
    end_copies();
  }

  /// Of the tile before.
  template <bool kAll>
  __device__ __forceinline__ void residuals_of_numbers(int beyond, std::int32_t rows, std::uint32_t side) {
    const std::uint32_t parts =
        parts_ + (side ^ 1) * (2 * kMostWarps * kSizeOfNumbers) + static_cast<std::uint32_t>(beyond * 8);
    double part[kMostParts][2];
#pragma unroll
    for (int k = 0; k < kMostParts; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        part[k][i] = 0.0;
        if (8 * k + 4 * i + at_.of_quad < 2 * shape_.team_warps) {
          part[k][i] = load_double(parts + (8 * k + 4 * i) * kSizeOfNumbers);
        }
      }
    }
    const std::uint32_t slot = (step_index_ - 1) % kAhead;
    const std::uint32_t b_at = b_numbers_ + slot * (kNumbers * 8) + static_cast<std::uint32_t>(beyond * 8);
    double b = shape_.b.is_double ? load_double(b_at) : static_cast<double>(load_float(b_at));
    if (!has_b_) b = 0.0;
    double sums[4] = {b, b, 0.0, 0.0};  // lanes 0 to 3 need it in the first row, lanes 4 to 7 in the second
#pragma unroll
    for (int k = 0; k < kMostParts; ++k) {
      if (k == 0 || 4 * k < shape_.team_warps) multiply_add(sums, -1.0, -1.0, -1.0, -1.0, part[k][0], part[k][1]);
    }
    double residual = at_.quad == 0 ? sums[0] : sums[1];
    if (!kAll && (number_ + beyond) / kRhs >= rows) residual = 0.0;
    squares_ = fma(residual, residual, squares_);
    if (at_.quad < 2) {
      store_double(residuals_out_ + side * kSizeOfNumbers + static_cast<std::uint32_t>(beyond * 8), residual);
    }
  }

  /// kAll      whether there are three tiles to work on, all of them with all rows, and no row's end to be cut
  /// kReduces  with kAll: reduces_
  template <bool kAll, bool kReduces>
  __device__ __forceinline__ void step() {
    const bool reduces = kAll ? kReduces : reduces_;
    const std::int32_t rows = kAll ? kRows : rows_of_tile(shape_, tile_);
    const bool has_products = kAll || rows != 0, has_residuals = kAll || rows_[1] != 0,
               has_update = kAll || rows_[2] != 0;
    // Rows beyond the last are read as that one; their residuals are 0.
    const auto row_offset = [&](int row, std::int32_t count) {
      return static_cast<std::uint32_t>(kAll || row < count ? row : count > 0 ? count - 1 : 0) * shape_.pitch_bytes;
    };

    double product[4] = {};
    if (has_products) {
      barrier_wait(full_ + 8 * place_.stage, place_.parity);
      const std::int32_t column = first_column_ + kPieceColumns * at_.of_quad;
      RowPieces<T, 2 * kGroups, 16> pieces(ring_ + place_.stage * tile_bytes_ + row_offset(row_of_quad_, rows) +
                                           static_cast<std::uint32_t>(column * kSize));
      if (!kAll && cut_) pieces.clear_behind_column(shape_.n - column);
#pragma unroll
      for (int k = 0; k < 2 * kGroups; ++k) {
        double a[kPieceColumns];
        pieces.widen_piece(a, k);
        multiply_add(product, a[0], a[2], a[1], a[3], x_[k][0], x_[k][1]);
      }
    }

    const std::int32_t column = first_column_ + kPieceColumns * at_.quad;
    const std::uint32_t start = ring_ + stage_before(2) * tile_bytes_ + static_cast<std::uint32_t>(column * kSize);
    RowPieces<T, kGroups, 32> upper(start + row_offset(at_.of_quad, rows_[2]));
    RowPieces<T, kGroups, 32> lower(start + row_offset(at_.of_quad + 4, rows_[2]));
    if (!kAll && cut_) {
      upper.clear_behind_column(shape_.n - column);
      lower.clear_behind_column(shape_.n - column);
    }
    if (reduces) {
      fetch_b(tile_ + step_, (step_index_ + 1) % kAhead);
      wait_for_copies<2>();
    }

    const std::uint32_t side = step_index_ % 2;
    barrier_wait(stepped_, side ^ 1);
    // All warps are through with the tile before the last three: its stage is filled again.
    if (copies_) fetch(tile_ + (shape_.stages - kBehind) * step_, stage_before(kBehind));

    const std::uint32_t known = residuals_in_ + (side ^ 1) * kSizeOfNumbers;
    double upper_residual = load_double(known), lower_residual = load_double(known + 4 * kRhs * 8);
    if (at_.quad >= kRhs) upper_residual = lower_residual = 0.0;
    if (reduces && has_residuals) {
      const std::int32_t known_rows = kAll ? kRows : rows_[1];
      residuals_of_numbers<kAll>(0, known_rows, side);
#pragma unroll 1
      for (int beyond = next_numbers_; beyond + first_number_ < kNumbers; beyond += next_numbers_) {
        residuals_of_numbers<kAll>(beyond, known_rows, side);
      }
    }
    if (has_update) {
#pragma unroll
      for (int k = 0; k < kGroups; ++k) {
        double a[kPieceColumns], c[kPieceColumns];
        upper.widen_piece(a, k);
        lower.widen_piece(c, k);
        multiply_add(gradient_[2 * k], a[0], a[1], c[0], c[1], upper_residual, lower_residual);
        multiply_add(gradient_[2 * k + 1], a[2], a[3], c[2], c[3], upper_residual, lower_residual);
      }
    }
    if (has_products) {
      const bool second = at_.of_quad >= 2;
      store_doubles(products_out_ + side * (2 * kMostWarps * kSizeOfNumbers), second ? product[2] : product[0],
                    second ? product[3] : product[1]);
    }
    __syncwarp();
    if (at_.lane == 0) barrier_arrive(stepped_);
    rows_[2] = rows_[1];
    rows_[1] = rows;
    place_.advance(static_cast<std::uint32_t>(shape_.stages));
    tile_ += step_;
    ++step_index_;
  }

  const TensorShape& shape_;
  const Position& at_;
  std::uint32_t tile_bytes_, ring_, full_, stepped_;
  std::uint32_t products_out_, parts_, residuals_out_, residuals_in_, b_numbers_;
  std::int32_t step_, tile_;
  std::int32_t first_column_;
  bool cut_;         // whether what is copied of a row holds more than the row, maybe a NaN, and this warp reads there
  int row_of_quad_;  // 0, 2, 1, 3, ...: eight lanes read from two rows at a time
  bool copies_;
  int first_number_;  // of those that this warp adds up
  bool reduces_;
  int number_, next_numbers_;  // the first that this lane keeps; how far the warp's next ones are
  bool has_b_;
  const std::byte* a_ = nullptr;
  const std::byte* b_ = nullptr;
  // A x as (16, 8) (8, 8): 8 rows twice, with the first and with the second half of the columns of a piece; x likewise.
  // Of the result each half's own products count: lane l has two of them, of half l % 4 / 2.
  double x_[2 * kGroups][2];
  double gradient_[2 * kGroups][4] = {};
  double squares_ = 0.0;
  std::int32_t rows_[3] = {};  // of the tile before (1) and the one before that (2)
  std::uint32_t step_index_ = 0;
  Ring place_;
};

template <class T, int kGroups>
__global__ void __launch_bounds__(most_tensor_warps(kGroups) * 32, 1)
    tensor_kernel(const __grid_constant__ TensorShape shape) {
  extern __shared__ __align__(128) std::byte rings[];
  __shared__ Board board;
  const Position at = position_of(shape);
  auto* const boards = reinterpret_cast<TeamBoard*>(rings + shape.rings_bytes);
  TensorPass<T, kGroups> pass(shape, at, rings, board, boards[at.team]);
  clear_pads(shape, rings);
  __syncthreads();
  pass.start();
  pass.run();

  // The CTA's sums: teams one after the other.
  auto* const total = reinterpret_cast<double*>(rings);  // (n + 1, rhs)
  for (int team = 0; team < shape.teams; ++team) {
    __syncthreads();
    if (team == at.team) pass.add_gradient(total, team == 0);
  }
  pass.write_squares(boards[at.team].residuals[0]);
  __syncthreads();
  if (at.warp == 0) {
    double sum = 0.0;
    for (int team = 0; team < shape.teams; ++team) sum += boards[team].residuals[0][at.lane];
    sum = sum_over_lanes(sum, kRhs, 32);
    if (at.lane < kRhs) total[shape.n * kRhs + at.lane] = sum;
  }
  __syncthreads();
  const int count = (shape.n + 1) * kRhs;
  double* const out = shape.partials + std::int64_t{blockIdx.x} * count;
  for (auto k = static_cast<int>(threadIdx.x); k < count; k += static_cast<int>(blockDim.x)) out[k] = total[k];
}

#else

template <class T, int kGroups>
__global__ void tensor_kernel(const __grid_constant__ TensorShape) {}

#endif

template <class T, int kGroups>
cudaError_t launch(const NormalProductPlan& plan, const TensorShape& shape, unsigned ctas, cudaStream_t stream) {
  const auto kernel = tensor_kernel<T, kGroups>;
  const auto shared = static_cast<int>(plan.shared_bytes);
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (status != cudaSuccess) return status;
  kernel<<<ctas, static_cast<unsigned>(plan.warps()) * 32, static_cast<std::size_t>(shared), stream>>>(shape);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_for_groups(const NormalProductPlan& plan, const TensorShape& shape, unsigned ctas,
                              cudaStream_t stream) {
  if (plan.groups == 2) return launch<T, 2>(plan, shape, ctas, stream);
  return launch<T, 4>(plan, shape, ctas, stream);
}

}  // namespace

cudaError_t launch_tensor_normal_product(const NormalProductPlan& plan, const SlabView& a, const RightHandSides& b,
                                         const double* x, std::int64_t x_pitch, double* partials, unsigned ctas,
                                         cudaStream_t stream) {
  const std::int64_t tiles = divide_up(a.rows, kTensorRows);
  const TensorShape shape{
      static_cast<const std::byte*>(a.data), b, ctas * plan.teams * kTensorRows * b.row_bytes, x, partials,
      a.pitch * element_size(a.type), ctas * plan.teams * kTensorRows * a.pitch * element_size(a.type),
      static_cast<std::int32_t>(a.cols), static_cast<std::int32_t>(x_pitch), static_cast<std::int32_t>(tiles),
      static_cast<std::int32_t>(a.rows - (tiles - 1) * kTensorRows), plan.team_warps, plan.teams, plan.stages,
      // Four warps see to residuals.
      std::min(kTensorRows, plan.team_warps > 4 ? plan.team_warps - 4 : plan.team_warps),
      static_cast<std::uint32_t>(plan.rings_bytes()),
      static_cast<std::uint32_t>(round_up(a.cols * element_size(a.type), 16)),
      static_cast<std::uint32_t>(plan.shared_pitch())};
  switch (a.type) {
    case ElementType::kFloat32: return launch_for_groups<float>(plan, shape, ctas, stream);
    case ElementType::kFloat16: return launch_for_groups<__half>(plan, shape, ctas, stream);
    case ElementType::kBfloat16: return launch_for_groups<__nv_bfloat16>(plan, shape, ctas, stream);
    case ElementType::kFloat64: break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace tallsketch::cuda
