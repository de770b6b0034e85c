// SyntheticProblem: a least-squares problem that is made, not stored, as the command line asks for it. Plain data, used by
// options, open_source, the generate driver and SyntheticSource, which says what each kind is.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/views.h"
#include "src/choices.h"

namespace tallsketch {

struct SyntheticProblem {
  std::optional<SyntheticKind> kind;  // nothing: no such problem, rows come from files
  std::int64_t m = 0, n = 0;
  ElementType type = ElementType::kFloat32;
  double cond = 1e4;       // illcond
  std::int64_t rank = 64;  // lowrank
  double noise = 0.1;      // standard deviation of b - A x_true, per entry
  std::uint64_t seed = 0;
};

}  // namespace tallsketch
