#include "src/processor_budget.h"

#include <algorithm>

namespace tallsketch {

double processor_seconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

ProcessorBudget::ProcessorBudget(rlim_t seconds) : seconds_(seconds) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) == 0) inherited_ = limit.rlim_cur;
}

void ProcessorBudget::renew() const {
  rusage used{};
  rlimit limit{};
  if (::getrusage(RUSAGE_SELF, &used) != 0 || ::getrlimit(RLIMIT_CPU, &limit) != 0) return;
  limit.rlim_cur = std::min(inherited_, static_cast<rlim_t>(processor_seconds(used)) + 1 + seconds_);
  ::setrlimit(RLIMIT_CPU, &limit);
}

}  // namespace tallsketch
