#include "src/normals.h"

#include <algorithm>

#include <Random123/boxmuller.hpp>

namespace tallsketch {

void normals(std::uint64_t seed, std::int64_t index, DrawPurpose purpose, std::int64_t count, double* out) {
  for (std::int64_t j = 0; j < count; j += 4) {
    const RandomWords words = random_words(seed, index, purpose, static_cast<std::uint32_t>(j / 4));
    const r123::float2 first = r123::boxmuller(words.word[0], words.word[1]);
    const r123::float2 second = r123::boxmuller(words.word[2], words.word[3]);
    const double four[4] = {first.x, first.y, second.x, second.y};
    std::copy_n(four, std::min<std::int64_t>(4, count - j), out + j);
  }
}

}  // namespace tallsketch
