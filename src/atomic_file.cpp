#include "src/atomic_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/cleanup.h"
#include "src/error.h"

namespace tallsketch {

namespace {

[[noreturn]] void fail(const std::string& path, const char* doing) {
  throw Error(ErrorKind::kOutput,
              fmt::format("cannot {} '{}': {}; nothing was left there", doing, path, std::strerror(errno)));
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    throw Error(ErrorKind::kOutput,
                fmt::format("'{}' exists and is not a regular file; it will not be replaced", path_));
  }
  // A name of our own, never a file or link that somebody left there.
  for (int attempt = 0; descriptor_ < 0 && attempt < 100; ++attempt) {
    temporary_ = fmt::format("{}.tmp.{}.{}", path_, ::getpid(), attempt);
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ >= 0) remember_temporary(temporary_);
  if (descriptor_ < 0) {
    const int reason = errno;
    temporary_.clear();
    errno = reason;
    fail(path_, "create");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (temporary_.empty()) return;
  forget_temporary(temporary_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::reserve(std::int64_t bytes) {
  const bool reserved = ::fallocate(descriptor_, 0, 0, bytes) == 0;  // not every file system can
  if (!reserved && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) fail(path_, "write");
  if (::ftruncate(descriptor_, bytes) != 0) fail(path_, "write");
}

void AtomicFile::write(std::span<const std::byte> bytes, std::int64_t offset) {
  write_fully(descriptor_, bytes, offset, path_);
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail(path_, "write");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(path_, "write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "write");
  forget_temporary(temporary_);
  temporary_.clear();
  // The new name itself reaches the disk with its folder; a file system that cannot sync folders has nothing to say.
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    const int ignored = ::fsync(descriptor);
    static_cast<void>(ignored);
    ::close(descriptor);
  }
}

void write_fully(int descriptor, std::span<const std::byte> bytes, std::int64_t offset, const std::string& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 30;  // below Linux's limit of one write
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor, bytes.data(), std::min(bytes.size(), kBlock), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "write");
    if (written == 0) {
      errno = ENOSPC;
      fail(path, "write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes, 0);
  file.commit();
}

}  // namespace tallsketch
