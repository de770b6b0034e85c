// tallsketch inspect: what a file holds and what a solve would do, without running it.

#include <cstdio>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/hdf5_source.h"
#include "src/plan.h"
#include "src/progress.h"
#include "src/sketch_identity.h"
#include "src/text.h"
#include "src/watchdog.h"

namespace tallsketch {

int run_inspect(const InspectOptions& options, const Communicator& comm) {
  Watchdog watchdog(options.run.timeout, fmt::format("rank {} on {}", comm.rank(), comm.host()));
  Progress out(comm.is_root() && !options.run.quiet ? stdout : nullptr);
  watchdog.enter("open");
  PhaseTimer timer;
  const auto source = open_hdf5_source(options.input, comm);
  const ProblemShape& shape = source->shape();
  const SourceInfo& info = source->info();
  const auto backend = make_backend(options.run, comm, timer);
  SketchSpec spec;
  PlanLimits limits;
  comm.together([&] {
    spec = make_sketch_spec(shape, options.sketch);
    limits = backend->plan_limits({.spec = spec, .shape = shape});
  });
  limits.memory_bytes = comm.min(limits.memory_bytes);
  limits.chunk_rows = static_cast<std::int64_t>(options.run.chunk_rows);
  const int ranks = options.ranks > 0 ? options.ranks : comm.size();

  for (const std::string& file : info.files) out.line("file:    " + file);
  out.line(fmt::format("A:       {} {} x {}, {}, {}, {}", info.a_name, shape.m, shape.n, info.dtype, info.layout,
                       bytes_text(shape.m * shape.a_row_bytes())));
  out.line(fmt::format("b:       {} {} x {}", info.b_name, shape.m, shape.r));
  out.line(fmt::format("reading: {}", info.io_mode));
  out.line(fmt::format("sketch:  {}, batches of {} rows", describe(spec), spec.batch_rows));
  out.line(fmt::format("backend: {}, {}, {} free for a rank", backend->name(), backend->device(),
                       bytes_text(limits.memory_bytes)));
  for (const std::string& warning : info.warnings) out.line("warning: " + warning);
  Plan plan;
  comm.together([&] { plan = make_plan(shape, spec, ranks, limits); });
  out.line("plan:    " + describe(plan));
  out.line(fmt::format(
      "memory of a rank: slab {}, chunk buffers {}, sketch {}, kernel scratch {}; rank 0 also {} for the QR",
      bytes_text(plan.slab_bytes), bytes_text(plan.chunk_bytes), bytes_text(plan.sketch_bytes),
      bytes_text(plan.scratch_bytes), bytes_text(plan.factor_bytes)));
  if (options.ranks > 0) {
    out.line("note: judged by the memory that is free for a rank here; give --memory to judge by another machine's");
  }
  return 0;
}

}  // namespace tallsketch
