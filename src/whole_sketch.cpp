#include "src/whole_sketch.h"

#include "src/backend.h"
#include "src/communicator.h"
#include "src/row_pass.h"
#include "src/row_source.h"

namespace tallsketch {

std::vector<double> whole_sketch(Backend& backend, const SketchSpec& spec, ScalingChoice scaling,
                                 std::int64_t chunk_rows, RowSource& source, const Communicator& comm) {
  const ProblemShape& shape = source.shape();
  PlanLimits limits;
  comm.together([&] { limits = backend.plan_limits({.spec = spec, .shape = shape, .scaling = scaling}); });
  limits.chunk_rows = chunk_rows;
  limits.memory_bytes = comm.min(limits.memory_bytes);
  comm.together([&] {
    const Plan plan = make_plan(shape, spec, comm.size(), limits);
    const RowRange mine = plan.rank_rows[static_cast<std::size_t>(comm.rank())];
    backend.begin({.spec = spec, .shape = shape, .plan = plan, .rows = mine, .scaling = scaling});
    for_each_chunk(mine, plan.chunk_rows, [&](RowRange rows) {
      ChunkBuffer& chunk = backend.next_buffer(rows);
      source.read(rows, chunk.a, chunk.b);
      backend.upload(chunk);
    });
  });
  backend.exchange();
  comm.together([&] { backend.sketch(); });
  backend.reduce();
  std::vector<double> sketch;
  comm.together([&] { sketch = backend.sketch_copy(); });
  return sketch;
}

}  // namespace tallsketch
