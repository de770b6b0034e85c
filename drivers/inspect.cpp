// tallsketch inspect: what a file holds and what a solve would do, without running it.

#include <cstdio>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "drivers/inspect_scaling.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/open_source.h"
#include "src/plan.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/text.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// What has to be done to rows as they are stored.
std::string describe_encoding(const Encoding& encoding) {
  return fmt::format("stored {}, {}", encoding.by_columns ? "by columns" : "by rows",
                     encoding.swapped ? "bytes to be swapped" : "bytes in this machine's order");
}

}  // namespace

int run_inspect(const InspectOptions& options, const Communicator& comm) {
  check_cluster(options, comm);
  Progress out(comm.is_root() && !options.run.quiet && !options.json ? stdout : nullptr, true);
  Watchdog watchdog(options.run.timeout, comm, &out);
  watchdog.enter("open");
  PhaseTimer timer;
  const auto source = open_source(options.input, options.synthetic, comm, [&] { watchdog.touch(); }).rows;
  const ProblemShape& shape = source->shape();
  const SourceInfo& info = source->info();
  for (const std::string& file : info.files) out.line("file:    " + file);
  out.line(fmt::format("A:       {} {} x {}, {}, {}, {}", info.a_name, shape.m, shape.n, info.dtype, info.layout,
                       bytes_text(shape.m * shape.n * stored_size(source->encoding().type))));
  out.line(
      fmt::format("         {}, computed with as {}", describe_encoding(source->encoding()), to_word(shape.a_type)));
  out.line(fmt::format("b:       {} {} x {}", info.b_name, shape.m, shape.r));
  out.line(fmt::format("reading: {}", info.io_mode));
  for (const std::string& warning : info.warnings) out.warning(warning);

  if (!options.cluster.gpus.empty()) {
    predict_scaling(options, *source, comm, out);
    return 0;
  }
  const auto backend = make_backend(options.run, comm, timer);
  const int ranks = options.ranks.front() > 0 ? options.ranks.front() : comm.size();
  MethodOptions method = options.method;
  method.tolerance = tolerance_for(method, shape.a_type);
  const Attempt attempt = first_attempt(options.sketch, method, *source, ranks, false, *backend, comm, out);
  const SketchJob job = planned_job(attempt, method, options.run.chunk_rows, nullptr, *source, ranks, *backend, comm);
  const Plan& plan = job.plan;
  out.line(describe_job(job));
  out.line(fmt::format("backend: {}, {}, {} free for a rank", backend->name(), backend->device(),
                       bytes_text(agreed_limits(job, 0, *backend, comm).memory_bytes)));
  out.line("plan:    " + describe(plan));
  out.line(
      fmt::format("memory of a rank: kept rows {}, chunk buffers {}, sketch or Gram matrix {}, kernel scratch {}; rank "
                  "0 also {} to factor",
                  bytes_text(plan.slab_bytes), bytes_text(plan.chunk_bytes), bytes_text(plan.sketch_bytes),
                  bytes_text(plan.scratch_bytes), bytes_text(plan.factor_bytes)));
  if (options.ranks.front() > 0) {
    out.line("note: judged by the memory that is free for a rank here; give --memory to judge by another machine's");
  }
  return 0;
}

}  // namespace tallsketch
