// Decoding on the device: a thread an element, tiles in shared memory where rows are stored by columns. Kernels know only
// the widths of words; what a word means is a branch that all threads take alike, in a loop that waits for memory.
#include "kernels/decode_cuda.h"

#include "kernels/launch_shape.h"

namespace tallsketch::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;      // elements in each direction of a tile
constexpr int kTileLines = 8;  // kThreads / kTile: lines of a tile that a block moves at a time

__device__ std::uint8_t swapped_bytes(std::uint8_t x) { return x; }
__device__ std::uint16_t swapped_bytes(std::uint16_t x) {
  return static_cast<std::uint16_t>(__byte_perm(x, 0, 0x3201));
}
__device__ std::uint32_t swapped_bytes(std::uint32_t x) { return __byte_perm(x, 0, 0x0123); }
__device__ std::uint64_t swapped_bytes(std::uint64_t x) {
  const std::uint64_t low = swapped_bytes(static_cast<std::uint32_t>(x));
  return low << 32 | swapped_bytes(static_cast<std::uint32_t>(x >> 32));
}

template <class Word>
__device__ Word native(Word word, bool swapped) {
  return swapped ? swapped_bytes(word) : word;
}

/// What a word of the file is, as the bits of the element that it becomes. Narrowing is of FP64 or integers, once.
__device__ void convert(std::uint8_t word, StoredType type, std::uint32_t& out) {
  out = __float_as_uint(type == StoredType::kInt8 ? static_cast<float>(static_cast<std::int8_t>(word))
                                                  : static_cast<float>(word));
}
__device__ void convert(std::uint16_t word, StoredType, std::uint16_t& out) { out = word; }
__device__ void convert(std::uint16_t word, StoredType type, std::uint32_t& out) {
  out = __float_as_uint(type == StoredType::kInt16 ? static_cast<float>(static_cast<std::int16_t>(word))
                                                   : static_cast<float>(word));
}
__device__ void convert(std::uint32_t word, StoredType type, std::uint32_t& out) {
  if (type == StoredType::kFloat32) {
    out = word;
  } else {
    out = __float_as_uint(type == StoredType::kInt32 ? __int2float_rn(static_cast<std::int32_t>(word))
                                                     : __uint2float_rn(word));
  }
}
__device__ void convert(std::uint32_t word, StoredType type, std::uint64_t& out) {
  const double value =
      type == StoredType::kInt32 ? __int2double_rn(static_cast<std::int32_t>(word)) : __uint2double_rn(word);
  out = static_cast<std::uint64_t>(__double_as_longlong(value));
}
__device__ void convert(std::uint64_t word, StoredType type, std::uint32_t& out) {
  float value;
  if (type == StoredType::kFloat64) {
    value = __double2float_rn(__longlong_as_double(static_cast<long long>(word)));
  } else {
    value = type == StoredType::kInt64 ? __ll2float_rn(static_cast<long long>(word)) : __ull2float_rn(word);
  }
  out = __float_as_uint(value);
}
__device__ void convert(std::uint64_t word, StoredType type, std::uint64_t& out) {
  if (type == StoredType::kFloat64) {
    out = word;
  } else {
    const double value =
        type == StoredType::kInt64 ? __ll2double_rn(static_cast<long long>(word)) : __ull2double_rn(word);
    out = static_cast<std::uint64_t>(__double_as_longlong(value));
  }
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads)
    decode_rows_kernel(const In* __restrict__ in, std::int64_t rows, std::int64_t cols, StoredType type, bool swapped,
                       Out* __restrict__ out, std::int64_t pitch) {
  const std::int64_t total = rows * cols, stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
#pragma unroll 4
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < total; k += stride) {
    // A division of 64 bits costs more than moving an element.
    const std::int64_t row =
        total >> 32 == 0 ? static_cast<std::uint32_t>(k) / static_cast<std::uint32_t>(cols) : k / cols;
    convert(native(in[k], swapped), type, out[row * pitch + (k - row * cols)]);
  }
}

/// in (cols, rows): a block reads 32 columns of 32 rows along the rows and writes them along the columns.
template <class In, class Out>
__global__ void __launch_bounds__(kThreads)
    decode_columns_kernel(const In* __restrict__ in, std::int64_t rows, std::int64_t cols, StoredType type,
                          bool swapped, Out* __restrict__ out, std::int64_t pitch) {
  __shared__ Out tile[kTile][kTile + 1];  // a column more: no two threads of a warp meet in a bank
  const std::int64_t down = (rows + kTile - 1) / kTile, tiles = down * ((cols + kTile - 1) / kTile);
  const int lane = static_cast<int>(threadIdx.x) % kTile, line = static_cast<int>(threadIdx.x) / kTile;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t i0 = t % down * kTile, j0 = t / down * kTile;
    for (int j = line; j < kTile; j += kTileLines) {
      if (i0 + lane < rows && j0 + j < cols) {
        convert(native(in[(j0 + j) * rows + i0 + lane], swapped), type, tile[j][lane]);
      }
    }
    __syncthreads();
    for (int i = line; i < kTile; i += kTileLines) {
      if (i0 + i < rows && j0 + lane < cols) out[(i0 + i) * pitch + j0 + lane] = tile[lane][i];
    }
    __syncthreads();
  }
}

template <class In, class Out>
cudaError_t launch(const EncodedView& from, const SlabView& to, cudaStream_t stream) {
  const auto* const in = static_cast<const In*>(from.data);
  auto* const out = static_cast<Out*>(const_cast<void*>(to.data));
  const Encoding& encoding = from.encoding;
  if (encoding.by_columns) {
    const std::int64_t tiles = (from.rows + kTile - 1) / kTile * ((from.cols + kTile - 1) / kTile);
    const auto blocks = static_cast<unsigned>(blocks_for(tiles, 1, kMaxGridX));
    decode_columns_kernel<<<blocks, kThreads, 0, stream>>>(in, from.rows, from.cols, encoding.type, encoding.swapped,
                                                           out, to.pitch);
  } else {
    constexpr std::int64_t kPerThread = 4;  // elements on their way at a time
    const auto blocks = static_cast<unsigned>(blocks_for(from.rows * from.cols, kThreads * kPerThread, kMaxGridX));
    decode_rows_kernel<<<blocks, kThreads, 0, stream>>>(in, from.rows, from.cols, encoding.type, encoding.swapped, out,
                                                        to.pitch);
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t decode(const EncodedView& from, const SlabView& out, cudaStream_t stream) {
  if (from.rows == 0 || from.cols == 0) return cudaSuccess;
  const ElementType natural = element_type_of(from.encoding.type);
  const bool narrows = natural == ElementType::kFloat64 && out.type == ElementType::kFloat32;
  if (out.type != natural && !narrows) return cudaErrorInvalidValue;
  switch (stored_size(from.encoding.type)) {
    case 1: return launch<std::uint8_t, std::uint32_t>(from, out, stream);
    case 2:
      return natural == ElementType::kFloat32 ? launch<std::uint16_t, std::uint32_t>(from, out, stream)
                                              : launch<std::uint16_t, std::uint16_t>(from, out, stream);
    case 4:
      return out.type == ElementType::kFloat64 ? launch<std::uint32_t, std::uint64_t>(from, out, stream)
                                               : launch<std::uint32_t, std::uint32_t>(from, out, stream);
    default:
      return out.type == ElementType::kFloat64 ? launch<std::uint64_t, std::uint64_t>(from, out, stream)
                                               : launch<std::uint64_t, std::uint32_t>(from, out, stream);
  }
}

}  // namespace tallsketch::cuda
