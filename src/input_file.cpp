#include "src/input_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/error.h"

namespace tallsketch {

namespace {

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec; }

/// "FILE:name" was given where FILE:/name is needed, perhaps.
std::string dataset_hint(const std::string& path) {
  const auto colon = path.rfind(':');
  if (colon == std::string::npos) return "";
  return fmt::format("; if '{0}' was meant as a dataset, it needs a slash: {1}:/{0}", path.substr(colon + 1),
                     path.substr(0, colon));
}

/// The first bytes of a file. errno is judged at once, before anything can change it.
std::string first_bytes(const std::string& path) {
  constexpr std::size_t kMost = 4096;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, ErrorKind::kInput, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  std::string head(kMost, '\0');
  const ssize_t got = ::pread(descriptor, head.data(), kMost, 0);
  const int reason = errno;
  ::close(descriptor);
  require(got >= 0, ErrorKind::kInput, fmt::format("cannot read '{}': {}", path, std::strerror(reason)));
  head.resize(static_cast<std::size_t>(got));
  return head;
}

/// 64-bit FNV-1a.
std::uint64_t hash_of(const std::string& bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return hash;
}

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  struct stat info {};
  const bool found = ::stat(path.c_str(), &info) == 0;  // errno is read after it, which one call would not ensure
  const std::string reason = found ? "" : std::strerror(errno);
  require(found, ErrorKind::kInput, fmt::format("cannot open '{}': {}{}", path, reason, dataset_hint(path)));
  require(!S_ISDIR(info.st_mode), ErrorKind::kInput, fmt::format("'{}' is a directory, not a file", path));
  require(S_ISREG(info.st_mode), ErrorKind::kInput, fmt::format("'{}' is not a regular file", path));
  require(info.st_size > 0, ErrorKind::kInput, fmt::format("'{}' is empty (0 bytes)", path));
  bytes_ = info.st_size;
  modified_ns_ = nanoseconds(info.st_mtim);
  head_ = first_bytes(path);
}

void InputFile::check_unchanged() const {
  struct stat info {};
  const bool found = ::stat(path_.c_str(), &info) == 0;
  const std::int64_t bytes = found ? info.st_size : 0, modified = found ? nanoseconds(info.st_mtim) : 0;
  require(bytes == bytes_ && modified == modified_ns_, ErrorKind::kInput,
          fmt::format("'{}' was changed while it was read ({} bytes at first, now {}); run again when it is complete",
                      path_, bytes_, bytes));
}

std::string InputFile::identity() const {
  return fmt::format("{} bytes, modified {} ns, head {:016x}", bytes_, modified_ns_, hash_of(head_));
}

}  // namespace tallsketch
