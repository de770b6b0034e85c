// DirectReader: bytes of a file by positioned reads of several threads, without a library between.
// Used by npy_file, and by hdf5_dataset for contiguous datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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
  /// threads  that may read at the same time
  /// Errors   kInput
  DirectReader(const std::string& path, int threads);
  ~DirectReader();
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;

  int threads() const { return threads_; }

  /// Fills all pieces, or throws: a file that ends before them was shortened, and no byte is made up.
  /// Errors  kInput, with path, place and the system's reason
  void read(const StridedBytes& pieces, std::byte* out) const;

  /// Bytes of one system call at most, and the least that is worth a thread; tests lower it.
  static std::int64_t block_bytes;

 private:
  std::string path_;
  int descriptor_ = -1;
  int threads_ = 1;
};

}  // namespace tallsketch
