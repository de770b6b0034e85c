// DirectReader: bytes of a file by positioned reads of several threads, without a library between.
// Made by stored_matrix for what is read directly, and by npy_file for headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/read_team.h"

namespace tallsketch {

/// Pieces of equal length at equal distances, in a file and in memory; one piece is one run of bytes.
struct StridedBytes {
  std::int64_t offset = 0;  // in the file, of the first piece
  std::int64_t stride = 0;  // in the file, from piece to piece
  std::int64_t bytes = 0;   // of a piece
  std::int64_t count = 1;   // pieces
  std::int64_t pitch = 0;   // in memory, from piece to piece
};

class DirectReader {
 public:
  /// team    reads; shared with other files, one of which reads at a time
  /// Errors  kInput
  DirectReader(const std::string& path, std::shared_ptr<ReadTeam> team);
  ~DirectReader();
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;

  int threads() const { return team_->threads(); }

  /// Fills all pieces, or throws: a file that ends before them was shortened, and no byte is made up.
  /// Errors  kInput, with path, place and the system's reason
  void read(const StridedBytes& pieces, std::byte* out) const;

  /// Bytes of one system call at most, and the least that is worth a thread; tests lower it.
  static std::int64_t block_bytes;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::shared_ptr<ReadTeam> team_;
};

}  // namespace tallsketch
