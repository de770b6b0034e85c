// The kind of Error that a call ends with, because a test of a rejection should not pass for another reason.
// With its message, where that is tested. Called by tests of every folder.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "src/error.h"

namespace tallsketch {

/// Nothing if f returns; whatever is no Error goes through.
template <class F>
std::optional<ErrorKind> error_kind_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind();
  }
  return std::nullopt;
}

/// Exit code and message of the Error that f ends with; 0 and "" if it returns; whatever is no Error goes through.
template <class F>
std::pair<int, std::string> error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.exit_code(), e.what()};
  }
  return {0, ""};
}

}  // namespace tallsketch
