#include "src/error.h"

#include <limits>
#include <new>
#include <system_error>

namespace tallsketch {

const char* status_word(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal: return "internal_error";
    case ErrorKind::kUsage: return "usage_error";
    case ErrorKind::kInput: return "input_error";
    case ErrorKind::kNonFinite: return "non_finite";
    case ErrorKind::kRankDeficient: return "rank_deficient";
    case ErrorKind::kNotConverged: return "not_converged";
    case ErrorKind::kMemory: return "out_of_memory";
    case ErrorKind::kCommunication: return "communication_error";
    case ErrorKind::kOutput: return "output_failed";
    case ErrorKind::kStopped: return "stopped";
  }
  return "internal_error";
}

std::string Error::text() const {
  if (kind_ != ErrorKind::kInternal || agreed_) return what();  // an agreed one has its origin's place already
  return fmt::format("{} [{}:{}]", what(), where_.file_name(), where_.line());
}

Error as_error(const std::exception& e) {
  if (const auto* error = dynamic_cast<const Error*>(&e)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return Error(ErrorKind::kMemory, "out of host memory; use more ranks, fewer --chunk-rows or a smaller --memory");
  }
  // What starting a thread throws where there is no room for its stack, or too many run.
  const auto* system = dynamic_cast<const std::system_error*>(&e);
  if (system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return Error(ErrorKind::kMemory, "a thread could not be started; raise ulimit -v (memory) or ulimit -u (threads)");
  }
  return Error(ErrorKind::kInternal, fmt::format("unexpected: {}", e.what()));
}

int checked_int(std::int64_t value, const char* what, std::source_location where) {
  require(value >= 0 && value <= std::numeric_limits<int>::max(), ErrorKind::kMemory,
          fmt::format("{} is {}, beyond the 32-bit integers of this BLAS/LAPACK (it needs 64-bit BLAS); "
                      "use a smaller sketch (--oversample) or fewer columns",
                      what, value),
          where);
  return static_cast<int>(value);
}

}  // namespace tallsketch
