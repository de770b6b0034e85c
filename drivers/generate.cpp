// tallsketch generate: writes a synthetic problem to HDF5; every rank writes its own rows in place.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "drivers/commands.h"
#include "src/atomic_file.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/hdf5_writer.h"
#include "src/host_buffer.h"
#include "src/host_threads.h"
#include "src/plan.h"
#include "src/problem_shape.h"
#include "src/progress.h"
#include "src/row_pass.h"
#include "src/synthetic_source.h"
#include "src/text.h"
#include "src/version.h"
#include "src/watchdog.h"

namespace tallsketch {

namespace {

std::string provenance(const SyntheticProblem& problem) {
  return nlohmann::ordered_json{{"tool", "tallsketch generate " + version_number()},
                                {"kind", to_word(*problem.kind)},
                                {"rows", problem.m},
                                {"cols", problem.n},
                                {"dtype", to_word(problem.type)},
                                {"cond", problem.cond},
                                {"rank", problem.rank},
                                {"noise", problem.noise},
                                {"seed", problem.seed}}
      .dump();
}

std::string shard_path(const GenerateOptions& options, std::int64_t shard) {
  if (options.shards == 1) return options.output;
  const std::filesystem::path path(options.output);
  return (path.parent_path() / fmt::format("{}.{:03}{}", path.stem().string(), shard, path.extension().string()))
      .string();
}

/// Of b as stored; generate makes one column.
std::int64_t b_row_bytes(const ProblemShape& shape) { return element_size(stored_b_type(shape.a_type)); }

/// Positioned writes into a file that rank 0 has laid out.
class RowWriter {
 public:
  RowWriter(const std::string& path, ProblemOffsets offsets, const ProblemShape& shape, std::int64_t first_row)
      : path_(path), offsets_(offsets), shape_(shape), first_row_(first_row) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    require(descriptor_ >= 0, ErrorKind::kOutput, fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  }
  ~RowWriter() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  void write(RowRange rows, const std::byte* a, const std::vector<double>& b) {
    const std::int64_t at = rows.begin - first_row_;
    const std::int64_t row_bytes = shape_.a_row_bytes();
    put(a, rows.size() * row_bytes, offsets_.a + at * row_bytes);
    const std::int64_t b_bytes = b_row_bytes(shape_);
    if (stored_b_type(shape_.a_type) == ElementType::kFloat64) {
      put(b.data(), rows.size() * b_bytes, offsets_.b + at * b_bytes);
    } else {
      const std::vector<float> narrow(b.begin(), b.begin() + rows.size());
      put(narrow.data(), rows.size() * b_bytes, offsets_.b + at * b_bytes);
    }
  }
  void finish() {
    const bool synced = ::fsync(descriptor_) == 0;  // errno is read after it, which one call would not ensure
    require(synced, ErrorKind::kOutput, fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
  }

 private:
  void put(const void* data, std::int64_t bytes, std::int64_t offset) {
    write_fully(descriptor_, {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)}, offset, path_);
  }

  std::string path_;
  ProblemOffsets offsets_;
  ProblemShape shape_;
  std::int64_t first_row_;
  int descriptor_ = -1;
};

/// One file with the given global rows, complete under its temporary name. Collective; the file is rank 0's.
std::unique_ptr<AtomicFile> write_shard(SyntheticSource& source, RowRange rows, const std::string& path,
                                        const std::string& provenance_text, std::int64_t chunk_rows,
                                        const Communicator& comm, Watchdog& watchdog, Progress& progress) {
  std::unique_ptr<AtomicFile> file;
  ProblemOffsets offsets;
  std::string temporary;
  comm.together([&] {
    if (!comm.is_root()) return;
    file = std::make_unique<AtomicFile>(path);
    // Before HDF5, which a limit of the file size would hit, too: the space of all, and of what HDF5 adds.
    constexpr std::int64_t kHeaderBytes = 64 << 10;
    file->reserve(rows.size() * (source.shape().a_row_bytes() + b_row_bytes(source.shape())) +
                  source.shape().n * element_size(ElementType::kFloat64) + kHeaderBytes);
    const ProblemFile problem =
        make_problem_file(rows.size(), source.shape().n, source.shape().a_type, source.x_true(), provenance_text);
    file->reserve(problem.size);
    for (const ProblemFile::Piece& piece : problem.pieces) file->write(piece.bytes, piece.offset);
    temporary = file->temporary();
    offsets = problem.offsets;
  });
  temporary = comm.broadcast(temporary);
  comm.broadcast(&offsets, sizeof offsets);
  const std::int64_t row_bytes = source.shape().a_row_bytes();
  constexpr double kSlowestWrite = 0.05e9;  // bytes/s: a loaded disk; a rank may wait so long for a slower one
  const double estimate = static_cast<double>(rows.size() * row_bytes) / kSlowestWrite;
  watchdog.enter("generate", estimate);
  const RowRange part = split_rows(rows.size(), 1, comm.size())[static_cast<std::size_t>(comm.rank())];
  const RowRange mine{rows.begin + part.begin, rows.begin + part.end};
  comm.together([&] {
    RowWriter writer(temporary, offsets, source.shape(), rows.begin);
    const std::int64_t most_rows = std::min(chunk_rows, std::max<std::int64_t>(1, mine.size()));
    HostBuffer a(most_rows * row_bytes);
    std::vector<double> b(static_cast<std::size_t>(most_rows));
    for_each_chunk(mine, chunk_rows, [&](RowRange chunk) {
      source.read(chunk, a.data(), b.data());
      writer.write(chunk, a.data(), b);
      watchdog.touch();
      const auto done = static_cast<double>(chunk.end - mine.begin);
      progress.fraction("generate", done / static_cast<double>(mine.size()), done * static_cast<double>(row_bytes));
    });
    watchdog.enter("flush to disk", estimate);
    writer.finish();
  });
  return file;
}

}  // namespace

int run_generate(const GenerateOptions& options, const Communicator& comm) {
  Progress progress(comm.is_root() && !options.run.quiet ? stdout : nullptr, options.run.verbose, comm.size());
  Watchdog watchdog(options.run.timeout, comm, &progress);
  const SyntheticProblem& problem = options.problem;
  std::optional<SyntheticSource> made;
  comm.together([&] {
    made.emplace(problem, host_threads(comm));
    require(options.shards <= problem.m, ErrorKind::kUsage,
            fmt::format("--shards {} for {} rows: every shard needs a row", options.shards, problem.m));
  });
  SyntheticSource& source = *made;
  const ProblemShape& shape = source.shape();
  const std::int64_t row_bytes = shape.a_row_bytes();
  constexpr std::int64_t kChunkBytes = std::int64_t{32} << 20;
  const std::int64_t chunk_rows = options.run.chunk_rows > 0 ? static_cast<std::int64_t>(options.run.chunk_rows)
                                                             : std::max<std::int64_t>(1, kChunkBytes / row_bytes);
  const auto start = std::chrono::steady_clock::now();
  const auto shards = split_rows(shape.m, 1, static_cast<int>(options.shards));
  std::vector<std::unique_ptr<AtomicFile>> files;  // all appear at the end, or none
  for (std::int64_t shard = 0; shard < options.shards; ++shard) {
    files.push_back(write_shard(source, shards[static_cast<std::size_t>(shard)], shard_path(options, shard),
                                provenance(problem), chunk_rows, comm, watchdog, progress));
  }
  watchdog.enter("write");
  comm.together([&] {
    for (const auto& file : files) {
      if (file) file->commit();
    }
  });
  ignore_ending_signals();  // the files are complete
  for (std::int64_t shard = 0; shard < options.shards; ++shard) {
    const RowRange rows = shards[static_cast<std::size_t>(shard)];
    progress.line(fmt::format("wrote {}: rows {} to {} of A {} x {} {}, kind {}", shard_path(options, shard),
                              rows.begin, rows.end, shape.m, shape.n, to_word(shape.a_type), to_word(*problem.kind)));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  progress.line(fmt::format("{:.2f} GB in {:.1f} s on {} rank{}", static_cast<double>(shape.m * row_bytes) / 1e9,
                            seconds, comm.size(), plural(comm.size())));
  return 0;
}

}  // namespace tallsketch
