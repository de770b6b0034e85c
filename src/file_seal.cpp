#include "src/file_seal.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "src/error.h"
#include "src/input_file.h"
#include "src/word_hash.h"

namespace tallsketch {

namespace {

constexpr char kMark[] = "\ntallsketch seal ";
constexpr std::size_t kMarkBytes = sizeof(kMark) - 1, kSealBytes = kMarkBytes + 17;  // 16 digits and a line's end

/// Of bytes, the last word filled up by zeros, and of their number.
class Hash {
 public:
  /// bytes  a multiple of 8, but for the last part
  void add(const char* part, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, part + at, std::min(sizeof word, bytes - at));
      words_.add(word);
    }
    bytes_ += bytes;
  }
  std::string seal() const { return fmt::format("{}{:016x}\n", kMark, (words_.value() ^ bytes_) * WordHash::kPrime); }

 private:
  WordHash words_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  Hash hash;
  hash.add(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string seal = hash.seal();
  bytes.reserve(bytes.size() + seal.size());  // not twice as much
  const auto* const begin = reinterpret_cast<const std::byte*>(seal.data());
  bytes.insert(bytes.end(), begin, begin + seal.size());
  return bytes;
}

void require_seal(const std::string& path) {
  const std::int64_t size = InputFile(path).bytes(), before = size - static_cast<std::int64_t>(kSealBytes);
  const auto require_mark = [&](bool found) {
    require(found, ErrorKind::kInput,
            fmt::format("'{}' is no sketch file or checkpoint, or it was truncated: it does not end with the seal that "
                        "tallsketch writes; make it again",
                        path));
  };
  require_mark(before >= 0);
  std::ifstream file(path, std::ios::binary);
  std::string found(kSealBytes, '\0');
  file.seekg(before).read(found.data(), static_cast<std::streamsize>(kSealBytes));
  require_mark(!file || found.compare(0, kMarkBytes, kMark) == 0);
  file.seekg(0);
  Hash hash;
  std::vector<char> part(std::size_t{1} << 20);
  for (std::int64_t left = before; left > 0 && file;) {
    const auto bytes = std::min<std::int64_t>(left, std::ssize(part));
    file.read(part.data(), bytes);
    hash.add(part.data(), static_cast<std::size_t>(bytes));
    left -= bytes;
  }
  require(file.good() && hash.seal() == found, ErrorKind::kInput,
          fmt::format("'{}' is corrupt: the checksum at its end is not that of the {} bytes before it; remove it and "
                      "make it again",
                      path, before));
}

}  // namespace tallsketch
