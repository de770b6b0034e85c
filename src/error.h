// Error: the one exception type. Its kind is the exit code of the process (README, exit codes).
// Thrown anywhere above kernels/; agreed on by all ranks in communicator.h; reported once by drivers/tallsketch.cpp.
#pragma once

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace tallsketch {

enum class ErrorKind : int {
  kInternal = 1,
  kUsage = 2,
  kInput = 3,
  kNonFinite = 4,
  kRankDeficient = 5,
  kNotConverged = 6,
  kMemory = 7,
  kCommunication = 8,
  kOutput = 9,
  kStopped = 75,
};

/// Word for `status` in the report.
const char* status_word(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::source_location where = std::source_location::current())
      : std::runtime_error(message), kind_(kind), where_(where) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }
  const std::source_location& where() const { return where_; }
  /// Whether all ranks throw this error (Communicator::together); otherwise only this one knows of it.
  bool agreed() const { return agreed_; }
  void set_agreed() { agreed_ = true; }
  /// The message; of an internal error also the place, which is what its report needs.
  std::string text() const;

 private:
  ErrorKind kind_;
  std::source_location where_;
  bool agreed_ = false;
};

/// Throws Error{kind, message} unless the condition holds. The message says what was wrong, the value and the fix.
inline void require(bool condition, ErrorKind kind, const std::string& message,
                    std::source_location where = std::source_location::current()) {
  if (!condition) throw Error(kind, message, where);
}

/// Any exception as an Error: itself; kMemory for memory or threads that the system refuses; else kInternal.
Error as_error(const std::exception& e);

/// value as a 32-bit library integer, or Error{kMemory} "needs 64-bit BLAS".
int checked_int(std::int64_t value, const char* what, std::source_location where = std::source_location::current());

}  // namespace tallsketch
