// Which backend an MPI test runs on: the host's, or CUDA where CTest sets TALLSKETCH_TEST_DEVICES (cuda.* tests).
#pragma once

#include <cstdlib>

#include "src/options.h"

namespace tallsketch {

inline bool on_gpus() { return std::getenv("TALLSKETCH_TEST_DEVICES") != nullptr; }

inline RunOptions run_options() {
  RunOptions options;
  options.backend = on_gpus() ? BackendChoice::kCuda : BackendChoice::kHost;
  options.timeout = 60;
  options.emulate_half = true;
  return options;
}

}  // namespace tallsketch
