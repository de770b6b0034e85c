// Every stored form is decoded by runs of elements that lie side by side in the file; rows stored by columns go through
// a tile of decoded elements that stays in the second-level cache.
#include "kernels/decode_host.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>

#include "kernels/half.h"
#include "kernels/host_device.h"

namespace tallsketch::host {
namespace {

/// Words of the file, at any address.
template <class Word>
using Unaligned __attribute__((aligned(1), may_alias)) = Word;

inline __attribute__((always_inline)) std::uint8_t swapped_bytes(std::uint8_t x) { return x; }
inline __attribute__((always_inline)) std::uint16_t swapped_bytes(std::uint16_t x) { return __builtin_bswap16(x); }
inline __attribute__((always_inline)) std::uint32_t swapped_bytes(std::uint32_t x) { return __builtin_bswap32(x); }
inline __attribute__((always_inline)) std::uint64_t swapped_bytes(std::uint64_t x) { return __builtin_bswap64(x); }

// What becomes of a word, in this machine's byte order. Bits move as integers: a signalling NaN stays one.
struct Same {
  template <class Word>
  Word operator()(Word word) const {
    return word;
  }
};
struct NarrowedDouble {
  float operator()(std::uint64_t word) const {
    double value;
    std::memcpy(&value, &word, sizeof value);
    return static_cast<float>(value);
  }
};
template <class Integer, class Out>
struct FromInteger {
  template <class Word>
  Out operator()(Word word) const {
    return static_cast<Out>(static_cast<Integer>(word));
  }
};

template <class Word, class Out, class Convert>
inline __attribute__((always_inline)) void convert_run(const void* from, bool swapped, void* to, std::int64_t count,
                                                       Convert convert) {
  const auto* const in = static_cast<const Unaligned<Word>*>(from);
  auto* const __restrict__ out = static_cast<Out*>(to);
  if (swapped) {
    for (std::int64_t k = 0; k < count; ++k) out[k] = convert(swapped_bytes(Word{in[k]}));
  } else {
    for (std::int64_t k = 0; k < count; ++k) out[k] = convert(Word{in[k]});
  }
}

/// Integers of 32 and 64 bits become FP64 or FP32.
template <class Word, class Integer>
inline __attribute__((always_inline)) void convert_wide(const void* from, bool swapped, ElementType out_type, void* to,
                                                        std::int64_t count) {
  if (out_type == ElementType::kFloat64) {
    convert_run<Word, double>(from, swapped, to, count, FromInteger<Integer, double>{});
  } else {
    convert_run<Word, float>(from, swapped, to, count, FromInteger<Integer, float>{});
  }
}

/// Decodes elements that lie side by side, into elements that do.
TALLSKETCH_VECTOR_CLONES
void decode_run(const Encoding& encoding, const void* from, ElementType out_type, void* to, std::int64_t count) {
  const bool swapped = encoding.swapped;
  switch (encoding.type) {
    case StoredType::kFloat16:
    case StoredType::kBfloat16: convert_run<std::uint16_t, std::uint16_t>(from, swapped, to, count, Same{}); return;
    case StoredType::kFloat32: convert_run<std::uint32_t, std::uint32_t>(from, swapped, to, count, Same{}); return;
    case StoredType::kFloat64:
      if (out_type == ElementType::kFloat64) {
        convert_run<std::uint64_t, std::uint64_t>(from, swapped, to, count, Same{});
      } else {
        convert_run<std::uint64_t, float>(from, swapped, to, count, NarrowedDouble{});
      }
      return;
    case StoredType::kInt8:
      convert_run<std::uint8_t, float>(from, swapped, to, count, FromInteger<std::int8_t, float>{});
      return;
    case StoredType::kUint8:
      convert_run<std::uint8_t, float>(from, swapped, to, count, FromInteger<std::uint8_t, float>{});
      return;
    case StoredType::kInt16:
      convert_run<std::uint16_t, float>(from, swapped, to, count, FromInteger<std::int16_t, float>{});
      return;
    case StoredType::kUint16:
      convert_run<std::uint16_t, float>(from, swapped, to, count, FromInteger<std::uint16_t, float>{});
      return;
    case StoredType::kInt32: convert_wide<std::uint32_t, std::int32_t>(from, swapped, out_type, to, count); return;
    case StoredType::kUint32: convert_wide<std::uint32_t, std::uint32_t>(from, swapped, out_type, to, count); return;
    case StoredType::kInt64: convert_wide<std::uint64_t, std::int64_t>(from, swapped, out_type, to, count); return;
    case StoredType::kUint64: convert_wide<std::uint64_t, std::uint64_t>(from, swapped, out_type, to, count); return;
  }
}

// A tile is 256 rows by 64 columns, 68 KiB of FP32: it stays in the second-level cache, and every page of file and rows
// that it touches is touched for 256 bytes or more. Going straight from the file's columns to rows would put all lines into one
// set of the cache where the number of rows is a power of two.
constexpr std::int64_t kTileRows = 256, kTileCols = 64;
constexpr std::int64_t kTilePitch = kTileRows + 16;  // columns of a tile begin in different sets of the cache

/// A block of kBlock x kBlock words in kBlock registers, transposed by exchanging halves, quarters, ...
template <class Word>
struct Block;
template <>
struct Block<std::uint16_t> {
  static constexpr int kWords = 8;
  using Lanes = std::uint16_t __attribute__((vector_size(16)));
  using UnalignedLanes = Lanes __attribute__((aligned(2), may_alias));
};
template <>
struct Block<std::uint32_t> {
  static constexpr int kWords = 8;
  using Lanes = std::uint32_t __attribute__((vector_size(32)));
  using UnalignedLanes = Lanes __attribute__((aligned(4), may_alias));
};
template <>
struct Block<std::uint64_t> {
  static constexpr int kWords = 4;
  using Lanes = std::uint64_t __attribute__((vector_size(32)));
  using UnalignedLanes = Lanes __attribute__((aligned(8), may_alias));
};

/// Lane l of the first (second) result: of a where bit kHalf of l is clear, else of b.
template <int kHalf, class Word>
inline __attribute__((always_inline)) void exchange(typename Block<Word>::Lanes& a, typename Block<Word>::Lanes& b) {
  using Lanes = typename Block<Word>::Lanes;
  constexpr int kWords = Block<Word>::kWords;
  Lanes first{}, second{};
  for (int l = 0; l < kWords; ++l) {
    const bool of_a = (l & kHalf) == 0;
    first[l] = static_cast<Word>(of_a ? l : kWords + l - kHalf);
    second[l] = static_cast<Word>(of_a ? l + kHalf : kWords + l);
  }
  const Lanes kept = a;
  a = __builtin_shuffle(kept, b, first);
  b = __builtin_shuffle(kept, b, second);
}

template <int kHalf, class Word>
inline __attribute__((always_inline)) void exchange_all(typename Block<Word>::Lanes* lanes) {
#pragma GCC unroll 8
  for (int k = 0; k < Block<Word>::kWords; ++k) {
    if ((k & kHalf) == 0) exchange<kHalf, Word>(lanes[k], lanes[k + kHalf]);
  }
}

/// out (kWords, kWords) at a pitch = the transpose of from, (kWords, kWords) at a pitch of kTilePitch.
template <class Word>
inline __attribute__((always_inline)) void transpose_block(const Word* from, Word* out, std::int64_t pitch) {
  using Of = Block<Word>;
  typename Of::Lanes lanes[Of::kWords];
#pragma GCC unroll 8
  for (int k = 0; k < Of::kWords; ++k) {
    lanes[k] = *reinterpret_cast<const typename Of::UnalignedLanes*>(from + k * kTilePitch);
  }
  if constexpr (Of::kWords == 8) exchange_all<4, Word>(lanes);
  exchange_all<2, Word>(lanes);
  exchange_all<1, Word>(lanes);
#pragma GCC unroll 8
  for (int k = 0; k < Of::kWords; ++k) {
    *reinterpret_cast<typename Of::UnalignedLanes*>(out + k * pitch) = lanes[k];
  }
}

/// out (rows, cols) at a pitch = the transpose of tile (cols, rows) at a pitch of kTilePitch.
template <class Word>
inline __attribute__((always_inline)) void write_transposed(const Word* tile, std::int64_t rows, std::int64_t cols,
                                                            Word* out, std::int64_t pitch) {
  constexpr std::int64_t kWords = Block<Word>::kWords;
  const std::int64_t whole_rows = rows / kWords * kWords, whole_cols = cols / kWords * kWords;
  for (std::int64_t i = 0; i < whole_rows; i += kWords) {
    for (std::int64_t j = 0; j < whole_cols; j += kWords) {
      transpose_block(tile + j * kTilePitch + i, out + i * pitch + j, pitch);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) out[i * pitch + j] = tile[j * kTilePitch + i];
  }
}

TALLSKETCH_VECTOR_CLONES
void write_tile(const void* tile, std::int64_t word, std::int64_t rows, std::int64_t cols, void* out,
                std::int64_t pitch) {
  if (word == 2) {
    write_transposed(static_cast<const std::uint16_t*>(tile), rows, cols, static_cast<std::uint16_t*>(out), pitch);
  } else if (word == 4) {
    write_transposed(static_cast<const std::uint32_t*>(tile), rows, cols, static_cast<std::uint32_t*>(out), pitch);
  } else {
    write_transposed(static_cast<const std::uint64_t*>(tile), rows, cols, static_cast<std::uint64_t*>(out), pitch);
  }
}

/// Threads that are worth waking for so many elements: waking one costs about as much as decoding some 100 KB.
int worthwhile(int threads, std::int64_t count, std::int64_t word) {
  constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;
  return static_cast<int>(std::clamp<std::int64_t>(count * word / kLeastBytes, 1, std::max(1, threads)));
}

void decode_columns(const EncodedView& from, std::byte* out, ElementType out_type, int threads) {
  const auto* const in = static_cast<const std::byte*>(from.data);
  const std::int64_t width = stored_size(from.encoding.type), word = element_size(out_type);
  const std::int64_t across = (from.cols + kTileCols - 1) / kTileCols;
  const std::int64_t tiles = (from.rows + kTileRows - 1) / kTileRows * across;
  const int workers = worthwhile(threads, from.rows * from.cols, word);
#pragma omp parallel for num_threads(workers) schedule(static)
  for (std::int64_t t = 0; t < tiles; ++t) {
    alignas(64) std::byte tile[kTilePitch * kTileCols * 8];
    const std::int64_t i0 = t / across * kTileRows, j0 = t % across * kTileCols;
    const std::int64_t rows = std::min(kTileRows, from.rows - i0), cols = std::min(kTileCols, from.cols - j0);
    for (std::int64_t j = 0; j < cols; ++j) {
      decode_run(from.encoding, in + ((j0 + j) * from.rows + i0) * width, out_type, tile + j * kTilePitch * word, rows);
    }
    write_tile(tile, word, rows, cols, out + (i0 * from.cols + j0) * word, from.cols);
  }
}

}  // namespace

void decode(const EncodedView& from, void* out, ElementType out_type, int threads) {
  assert(out_type == element_type_of(from.encoding.type) ||
         (element_type_of(from.encoding.type) == ElementType::kFloat64 && out_type == ElementType::kFloat32));
  auto* const to = static_cast<std::byte*>(out);
  if (from.encoding.by_columns && from.rows > 1 && from.cols > 1) {
    decode_columns(from, to, out_type, threads);
    return;
  }
  // One row or one column is the same both ways.
  const auto* const in = static_cast<const std::byte*>(from.data);
  const std::int64_t width = stored_size(from.encoding.type), word = element_size(out_type);
  const std::int64_t count = from.rows * from.cols;
  const bool copies = !from.encoding.swapped && stored_type_of(out_type) == from.encoding.type;
  constexpr std::int64_t kPiece = 65536;  // elements of a task: long streams, enough tasks to balance
  const int workers = worthwhile(threads, count, word);
#pragma omp parallel for num_threads(workers) schedule(static)
  for (std::int64_t k = 0; k < count; k += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - k);
    if (copies) {
      std::memcpy(to + k * word, in + k * width, static_cast<std::size_t>(piece * word));
    } else {
      decode_run(from.encoding, in + k * width, out_type, to + k * word, piece);
    }
  }
}

}  // namespace tallsketch::host
