#include "src/error.h"

#include <limits>

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

int checked_int(std::int64_t value, const char* what, std::source_location where) {
  require(value >= 0 && value <= std::numeric_limits<int>::max(), ErrorKind::kMemory,
          fmt::format("{} is {}, beyond the 32-bit integers of this BLAS/LAPACK (it needs 64-bit BLAS); "
                      "use a smaller sketch (--oversample) or fewer columns",
                      what, value),
          where);
  return static_cast<int>(value);
}

}  // namespace tallsketch
