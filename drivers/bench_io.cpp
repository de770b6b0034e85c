// tallsketch bench io: how fast rows of [A | b] come in, step by step and all together, beside plain reads of the same files
// and plain copies to the device in the same run. One JSON line on standard output, the same for people on standard error.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/backend.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/host_threads.h"
#include "src/host_timing.h"
#include "src/io_timing.h"
#include "src/open_source.h"
#include "src/planning.h"
#include "src/progress.h"
#include "src/report.h"
#include "src/sketch_pass.h"
#include "src/solver.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

/// Seconds of each repeat, of the slowest rank; empty: not measured.
struct Times {
  std::vector<double> pread, read, decode, copy, sketch, stream;
};

/// Collective: all ranks start together, and the slowest counts. work  local, returns its seconds
template <class F>
double slowest(const Communicator& comm, F&& work) {
  double seconds = 0;
  comm.barrier();
  comm.together([&] { seconds = work(); });
  comm.max(&seconds, 1);
  return seconds;
}

/// Everything once, in turn, so that all see the same neighbours.
void measure(const SketchJob& job, RowSource& source, Backend& backend, int threads, const SolveContext& context,
             ChunkBuffers& buffers, Times& times) {
  const Communicator& comm = context.comm;
  const std::vector<std::string>& files = source.info().files;
  if (!files.empty()) {
    times.pread.push_back(
        slowest(comm, [&] { return pread_seconds(files, comm.rank(), comm.size(), threads, buffers); }));
  }
  times.read.push_back(slowest(comm, [&] { return read_seconds(source, job.rows, buffers); }));
  const bool decodes = !(source.encoding() == plain_encoding(source.shape().a_type));
  if (decodes) {
    times.decode.push_back(slowest(comm, [&] { return decode_seconds(source, job.rows, threads, buffers); }));
  }
  const std::int64_t bytes = job.rows.size() * source.shape().n * stored_size(source.encoding().type);
  std::optional<double> copied;
  const double copy = slowest(comm, [&] {
    copied = backend.copy_seconds(bytes);
    return copied.value_or(0);
  });
  if (copied) times.copy.push_back(copy);
  if (!copied) times.sketch.push_back(slowest(comm, [&] { return sketch_seconds(source, job, backend); }));
  Report report;
  comm.barrier();
  double stream = seconds_of([&] { sketch_in_range(job, {}, source, backend, context, report); });
  comm.max(&stream, 1);
  times.stream.push_back(stream);
}

/// Of the repeats but the first, in which memory is touched and caches are filled; 0: not measured.
double median_of(const std::vector<double>& seconds) {
  return seconds.empty() ? 0 : median({seconds.begin() + 1, seconds.end()});
}

/// null where something was not measured.
nlohmann::ordered_json quotient(double above, double below) {
  if (above <= 0 || below <= 0) return nullptr;
  return above / below;
}
nlohmann::ordered_json rate(std::int64_t bytes, double seconds) {
  return quotient(static_cast<double>(bytes) / 1e9, seconds);
}

/// Whether plain reads of the files are reads of the same bytes: datasets in one piece, and little else in the files.
bool same_bytes(const RowSource& source, std::int64_t bytes_of_a, std::int64_t bytes_of_files) {
  constexpr double kElse = 1.05;
  const ProblemShape& shape = source.shape();
  return source.info().layout.rfind("chunked", 0) != 0 &&
         static_cast<double>(bytes_of_files) <= kElse * static_cast<double>(bytes_of_a + shape.m * shape.r * 8) + 1e6;
}

}  // namespace

int run_bench_io(const BenchIoOptions& options, const Communicator& comm) {
  Progress progress(comm.is_root() && !options.run.quiet ? stderr : nullptr, options.run.verbose, comm.size());
  Watchdog watchdog(options.run.timeout, comm, &progress);
  watchdog.enter("open");
  PhaseTimer timer;
  const OpenedSource opened = open_source(options.input, options.synthetic, comm, [&] { watchdog.touch(); });
  RowSource& source = *opened.rows;
  const ProblemShape& shape = source.shape();
  RunOptions run = options.run;
  run.residency = ResidencyChoice::kFile;  // every repeat reads
  const auto backend = make_backend(run, comm, timer);
  const SolveContext context{comm, watchdog, progress, timer};
  MethodOptions method;
  method.method = SolveMethod::kSketchSolve;
  Report report;
  const Attempt attempt = first_attempt(SketchOptions{}, method, source, comm.size(), false, *backend, comm, progress);
  const SketchJob job = plan_together(attempt, method, run.chunk_rows, nullptr, source, *backend, context, report);

  const int threads = host_threads(comm);
  std::optional<ChunkBuffers> buffers;
  comm.together([&] { buffers.emplace(source, job.plan.chunk_rows, backend->lanes()); });
  Times times;
  for (int repeat = 0; repeat <= options.repeats; ++repeat) {
    watchdog.enter("bench io", 6 * pass_seconds(job, false));
    measure(job, source, *backend, threads, context, *buffers, times);
  }
  const double pread = median_of(times.pread), read = median_of(times.read), decode = median_of(times.decode);
  const double copy = median_of(times.copy), sketch = median_of(times.sketch), stream = median_of(times.stream);
  const std::int64_t bytes = shape.m * shape.n * stored_size(source.encoding().type);
  std::int64_t on_disk = 0;
  comm.together([&] { on_disk = file_bytes(source.info().files); });
  const bool same = same_bytes(source, bytes, on_disk);
  const double slower = copy > 0 ? std::max(read, copy) : 0;
  const nlohmann::ordered_json line = {{"bench", "io"},
                                       {"backend", backend->name()},
                                       {"device", backend->device()},
                                       {"commit", version_git()},
                                       {"ranks", comm.size()},
                                       {"threads", threads},
                                       {"files", source.info().files.size()},
                                       {"m", shape.m},
                                       {"n", shape.n},
                                       {"r", shape.r},
                                       {"dtype", source.info().dtype},
                                       {"layout", source.info().layout},
                                       {"io", source.info().io_mode},
                                       {"gb", static_cast<double>(bytes) / 1e9},
                                       {"chunk_rows", job.plan.chunk_rows},
                                       {"d", job.spec.d},
                                       {"repeats", options.repeats},
                                       {"pread_gb_per_s", rate(on_disk, pread)},
                                       {"read_gb_per_s", rate(bytes, read)},
                                       {"host_decode_gb_per_s", rate(bytes, decode)},
                                       {"pinned_copy_gb_per_s", rate(bytes, copy)},
                                       {"sketch_gb_per_s", rate(bytes, sketch)},
                                       {"stream_gb_per_s", rate(bytes, stream)},
                                       {"read_over_pread", quotient(same ? pread : 0, read)},
                                       {"stream_over_slower", quotient(stream, slower)}};
  if (!comm.is_root()) return 0;
  using Json = nlohmann::ordered_json;
  std::fputs((line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  std::fflush(stdout);
  std::string told;
  for (const char* key : {"pread_gb_per_s", "read_gb_per_s", "host_decode_gb_per_s", "pinned_copy_gb_per_s",
                          "sketch_gb_per_s", "stream_gb_per_s", "read_over_pread", "stream_over_slower"}) {
    if (!line[key].is_null())
      told += fmt::format("{}{} {:.2f}", told.empty() ? "" : ", ", key, line[key].get<double>());
  }
  progress.line("bench io: " + told);
  return 0;
}

}  // namespace tallsketch
