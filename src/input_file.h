// InputFile: what can be said of a file without knowing its format: that it can be read, its size and time, its first bytes.
// Used by hdf5_file, npy_file and file_source.
#pragma once

#include <cstdint>
#include <string>

namespace tallsketch {

class InputFile {
 public:
  InputFile() = default;
  /// Errors  kInput: missing, a directory, no regular file, empty, unreadable
  explicit InputFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  /// The first bytes, at most 4096.
  const std::string& head() const { return head_; }
  /// Errors: kInput when size or modification time differ from those at opening.
  void check_unchanged() const;
  /// Size, time of last modification in nanoseconds, hash of the head: the same after renaming, not after writing.
  std::string identity() const;

 private:
  std::string path_, head_;
  std::int64_t bytes_ = 0, modified_ns_ = 0;
};

}  // namespace tallsketch
