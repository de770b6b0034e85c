// tallsketch inspect: what a file holds and what a solve would do, without running it.

#include <cstdio>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/hdf5_source.h"
#include "src/plan.h"
#include "src/progress.h"
#include "src/watchdog.h"

namespace tallsketch {

int run_inspect(const InspectOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, fmt::format("rank {} on {}", comm.rank(), comm.host()));
  Progress out(comm.is_root() ? stdout : nullptr);
  watchdog.enter("open");
  PhaseTimer timer;
  const auto source = open_hdf5_source(options.input, comm);
  const ProblemShape& shape = source->shape();
  const SourceInfo& info = source->info();
  const auto backend = make_backend(options.run, comm, timer);
  const SketchSpec spec = make_sketch_spec(shape, options.sketch);
  PlanLimits limits;
  limits.cuda = std::string(backend->name()) == "cuda";
  limits.memory_bytes = comm.min(backend->free_memory());
  limits.scratch_bytes = comm.max(backend->scratch_bytes(spec, shape));
  limits.chunk_rows = static_cast<std::int64_t>(options.run.chunk_rows);

  for (const std::string& file : info.files) out.line("file:    " + file);
  out.line(fmt::format("A:       {} {} x {}, {}, {}, {}", info.a_name, shape.m, shape.n, info.dtype, info.layout,
                       bytes_text(shape.m * shape.n * element_size(shape.a_type))));
  out.line(fmt::format("b:       {} {} x {}", info.b_name, shape.m, shape.r));
  out.line(fmt::format("reading: {}", info.io_mode));
  out.line(fmt::format("sketch:  sparsestack, {} hash, d = {}, zeta = {}, batches of {} rows", to_word(spec.hash),
                       spec.d, spec.zeta, spec.batch_rows));
  out.line(fmt::format("backend: {}, {}, {} free for a rank", backend->name(), backend->device(),
                       bytes_text(limits.memory_bytes)));
  for (const std::string& warning : info.warnings) out.line("warning: " + warning);
  const Plan plan = make_plan(shape, spec, options.ranks > 0 ? options.ranks : comm.size(), limits);
  out.line("plan:    " + describe(plan, shape));
  out.line(fmt::format(
      "memory of a rank: slab {}, chunk buffers {}, sketch {}, kernel scratch {}; rank 0 also {} for the QR",
      bytes_text(plan.slab_bytes), bytes_text(plan.chunk_bytes), bytes_text(plan.sketch_bytes),
      bytes_text(plan.scratch_bytes), bytes_text(plan.factor_bytes)));
  return 0;
}

}  // namespace tallsketch
