// Atomic output: a file appears whole under its name, or not at all. Used for x, the report and generated problems.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tallsketch {

/// A temporary sibling of `path` that becomes `path` on commit and is removed otherwise. Local to one rank.
class AtomicFile {
 public:
  /// Errors: kOutput (directory missing, not writable, the target is no regular file, ...), with the system's reason.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& temporary() const { return temporary_; }
  /// Makes the file exactly so long, zeros that have their place on the disk. kOutput at once where the disk, a quota or a limit has no
  /// room for so many bytes; where nobody can tell, their place is taken as they are written.
  void reserve(std::int64_t bytes);
  /// Writes at an offset; all of it, or kOutput with the system's reason.
  void write(std::span<const std::byte> bytes, std::int64_t offset);
  /// fsync, close, rename.
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

/// Writes bytes at an offset of an open file; all of it, or kOutput naming the path and the system's reason.
void write_fully(int descriptor, std::span<const std::byte> bytes, std::int64_t offset, const std::string& path);

/// The whole text as the file `path`.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);

}  // namespace tallsketch
