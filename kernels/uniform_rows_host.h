// Rows of uniform numbers, about as fast as memory takes them: the synthetic matrix that has to feed a GPU.
// Called by src/synthetic_source.cpp from several threads at once. Equal on every processor, whatever is asked for at a time.
#pragma once

#include <cstdint>

namespace tallsketch::host {

/// Elements of one random word of 32 bits, and of the counters that are advanced together.
inline constexpr std::int64_t kUniformLanes = 16, kUniformBlock = 8 * kUniformLanes;

/// Elements [first, first + count) of an endless sequence: multiples of 2^-11 in [-1, 1), each equally likely.
/// Element e has 12 bits of random_words(seed, e / 128, kMatrixEntries, e mod 16): with q = (e mod 128) / 16 the upper
/// ones of the lower (q even) or upper half of word q / 2.
/// out    out (count)
/// Limits first, count >= 0; first + count <= 2^62
/// Cost   10 rounds of Philox for 8 elements; 9 GB/s of float32 on one core with AVX-512, read-only pass 25 (Zen 4)
void uniform_elements(std::uint64_t seed, std::int64_t first, std::int64_t count, float* out);

/// products[i] = sum over j of a[i n + j] x[j], in FP64.
/// a         in (rows, n) row-major, of uniform_elements
/// x         in (n) float32 values: then products are exact, and FMA or not gives the same bits
/// products  out (rows)
/// Order     32 sums, columns mod 32, one after the other
void uniform_row_products(const float* a, std::int64_t rows, std::int64_t n, const double* x, double* products);

/// out[i] = (the sum of the eight 16-bit halves of random_words(seed, first_row + i, kNoise, 0), each uniform on -1/2 ... 1/2)
/// sqrt(12 / 8): mean 0, variance 1 - 2^-32, nearly normal (kurtosis 2.85, |out| < 4.9).
void nearly_normal_numbers(std::uint64_t seed, std::int64_t first_row, std::int64_t count, double* out);

/// out[k] = in[k] as binary16, exactly.
/// in  in (count), of uniform_elements
void uniform_halves(const float* in, std::int64_t count, std::uint16_t* out);

}  // namespace tallsketch::host
