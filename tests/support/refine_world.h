// One rank's share of a refined solve under mpirun: communicator, backend and the solve itself.
// Called by the mpi tests of refinement; a backend is made once a test case, because NCCL takes its time.
#pragma once

#include <memory>
#include <vector>

#include "src/communicator.h"
#include "src/progress.h"
#include "src/solver.h"
#include "src/watchdog.h"
#include "tests/support/test_backend.h"

namespace tallsketch {

struct Solved {
  Solution solution;  // rank 0
  Report report;
};

class RefineWorld {
 public:
  explicit RefineWorld(std::uint64_t memory_bytes = 0, ResidencyChoice residency = ResidencyChoice::kAuto) {
    RunOptions options = run_options();
    options.residency = residency;
    options.memory_bytes = memory_bytes;
    backend_ = make_backend(options, comm, timer_);
  }
  bool is_root() const { return comm.is_root(); }

  /// Collective.
  Solved solve(RowSource& source, const MethodOptions& method, const SketchOptions& sketch = {},
               std::uint64_t chunk_rows = 0) {
    Watchdog watchdog(120, "test");
    Progress silent(nullptr);
    Solved solved;
    solved.solution = tallsketch::solve(sketch, method, chunk_rows, source, *backend_, {comm, watchdog, silent, timer_},
                                        solved.report);
    return solved;
  }

  Communicator comm{MPI_COMM_WORLD};

 private:
  PhaseTimer timer_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace tallsketch
