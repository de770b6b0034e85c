// The kind of Error that a call ends with, because a test of a rejection should not pass for another reason.
// Called by the cuda tests and host_gram_test.
#pragma once

#include <optional>

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

}  // namespace tallsketch
