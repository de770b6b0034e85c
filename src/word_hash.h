// WordHash: FNV-1a over words of 8 bytes, turned so that high bits reach low ones. For checksums against damage and comparisons of
// bits, not against forgers. Used by sketch_file, file_seal and reduce_timing.
#pragma once

#include <cstdint>
#include <cstring>

namespace tallsketch {

class WordHash {
 public:
  static constexpr std::uint64_t kPrime = 1099511628211U;

  void add(std::uint64_t word) {
    hash_ = (hash_ ^ word) * kPrime;
    hash_ = (hash_ << 31) | (hash_ >> 33);
  }
  void add(double value) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    add(word);
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037U;
};

}  // namespace tallsketch
