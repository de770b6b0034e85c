// Philox written out for loops over lanes, so that the compiler makes vectors of them; Random123's is for one counter.
#include "kernels/uniform_rows_host.h"

#include <algorithm>
#include <cstring>

#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/philox.h"

namespace tallsketch::host {
namespace {

/// The same words as random_words gives.
inline __attribute__((always_inline)) void philox(std::uint64_t seed, std::uint64_t index, DrawPurpose purpose,
                                                  std::uint32_t stream, std::uint32_t (&word)[4]) {
  auto c0 = static_cast<std::uint32_t>(index), c1 = static_cast<std::uint32_t>(index >> 32);
  auto c2 = static_cast<std::uint32_t>(purpose), c3 = stream;
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0, p1 = std::uint64_t{0xCD9E8D57U} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ key0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  word[0] = c0;
  word[1] = c1;
  word[2] = c2;
  word[3] = c3;
}

inline __attribute__((always_inline)) std::int32_t lower_half(std::uint32_t word) {
  return static_cast<std::int32_t>(word << 16) >> 16;
}
inline __attribute__((always_inline)) std::int32_t upper_half(std::uint32_t word) {
  return static_cast<std::int32_t>(word) >> 16;
}

/// Whole blocks of kUniformBlock elements.
TALLSKETCH_VECTOR_CLONES
void fill_blocks(std::uint64_t seed, std::int64_t first_block, std::int64_t blocks, float* __restrict out) {
  for (std::int64_t k = 0; k < blocks; ++k) {
    const auto index = static_cast<std::uint64_t>(first_block + k);
    float* const to = out + kUniformBlock * k;
    for (std::uint32_t lane = 0; lane < kUniformLanes; ++lane) {
      std::uint32_t word[4];
      philox(seed, index, DrawPurpose::kMatrixEntries, lane, word);
#pragma GCC unroll 4
      for (int w = 0; w < 4; ++w) {
        to[2 * w * kUniformLanes + lane] = static_cast<float>(lower_half(word[w]) >> 4) * 0x1p-11F;
        to[(2 * w + 1) * kUniformLanes + lane] = static_cast<float>(upper_half(word[w]) >> 4) * 0x1p-11F;
      }
    }
  }
}

constexpr std::int64_t kSums = 4, kSumLanes = 8;
using Floats = float __attribute__((vector_size(4 * kSumLanes)));
using Doubles = double __attribute__((vector_size(8 * kSumLanes)));

}  // namespace

void uniform_elements(std::uint64_t seed, std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t end = first + count;
  for (std::int64_t at = first; at < end;) {
    const std::int64_t block = at / kUniformBlock, inside = at % kUniformBlock;
    if (inside == 0 && end - at >= kUniformBlock) {
      const std::int64_t blocks = (end - at) / kUniformBlock;
      fill_blocks(seed, block, blocks, out + (at - first));
      at += blocks * kUniformBlock;
      continue;
    }
    float whole[kUniformBlock];  // of which a part is wanted
    fill_blocks(seed, block, 1, whole);
    const std::int64_t wanted = std::min(kUniformBlock - inside, end - at);
    std::copy_n(whole + inside, wanted, out + (at - first));
    at += wanted;
  }
}

TALLSKETCH_VECTOR_CLONES
void uniform_row_products(const float* a, std::int64_t rows, std::int64_t n, const double* x, double* products) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* const row = a + i * n;
    Doubles sum[kSums] = {};
    std::int64_t j = 0;
    for (; j + kSums * kSumLanes <= n; j += kSums * kSumLanes) {
      for (int s = 0; s < kSums; ++s) {
        Floats entries;
        Doubles factors;
        std::memcpy(&entries, row + j + s * kSumLanes, sizeof entries);
        std::memcpy(&factors, x + j + s * kSumLanes, sizeof factors);
        sum[s] += __builtin_convertvector(entries, Doubles) * factors;
      }
    }
    double parts[kSums * kSumLanes];
    std::memcpy(parts, sum, sizeof parts);
    for (std::int64_t k = 0; j < n; ++j, ++k) parts[k] += double{row[j]} * x[j];
    double total = 0;
    for (const double part : parts) total += part;
    products[i] = total;
  }
}

TALLSKETCH_VECTOR_CLONES
void nearly_normal_numbers(std::uint64_t seed, std::int64_t first_row, std::int64_t count, double* out) {
  constexpr double kScale = 1.22474487139158904910 * 0x1p-16;  // sqrt(12 / 8) / 2^16
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t word[4];
    philox(seed, static_cast<std::uint64_t>(first_row + i), DrawPurpose::kNoise, 0, word);
    std::int32_t sum = 4;  // halves are centred on -1/2
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) sum += lower_half(word[w]) + upper_half(word[w]);
    out[i] = kScale * sum;
  }
}

/// All but 0 are normal in both formats, and the bits that are cut off are zeros: a difference of biases is all.
TALLSKETCH_VECTOR_CLONES
void uniform_halves(const float* in, std::int64_t count, std::uint16_t* out) {
  constexpr std::uint32_t kRebias = (127U - 15U) << 10;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::uint32_t bits = bits_of_float(in[k]), magnitude = (bits & 0x7fffffffU) >> 13;
    const std::uint32_t half = magnitude - (magnitude != 0 ? kRebias : 0U);
    out[k] = static_cast<std::uint16_t>(((bits >> 16) & 0x8000U) | half);
  }
}

}  // namespace tallsketch::host
