// How fast this rank's rows of [A | b] come in: by plain positioned reads of the files, through the RowSource, and decoded.
// Called by `bench io`. Local; the caller lets the ranks start together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/backend.h"
#include "src/host_buffer.h"
#include "src/row_range.h"
#include "src/row_source.h"

namespace tallsketch {

/// As many buffers of a chunk as a backend has, used in turn: what is measured goes through as much memory as in a solve.
struct ChunkBuffers {
  ChunkBuffers(const RowSource& source, std::int64_t chunk_rows, int lanes);
  std::int64_t chunk_rows, a_bytes;  // of a chunk
  int lanes;
  HostBuffer a;  // (lanes, chunk_rows) encoded rows of A
  std::vector<double> b;
};

/// Bytes of all files together. Errors: kInput
std::int64_t file_bytes(const std::vector<std::string>& files);

/// Seconds of positioned reads of part `rank` of `ranks` of the files, taken as one run of bytes, in a part a thread; where
/// fewer threads can be started, those read it all.
/// Errors: kInput, with file and reason
double pread_seconds(const std::vector<std::string>& files, int rank, int ranks, int threads, ChunkBuffers& buffers);

/// Seconds of reading the rows chunk by chunk, encoded, as a solve does.
double read_seconds(RowSource& source, RowRange rows, ChunkBuffers& buffers);

/// Seconds of decoding as many rows from the buffers by the host's decoder, as the host backend does, with what was read last.
double decode_seconds(const RowSource& source, RowRange rows, int threads, const ChunkBuffers& buffers);

/// Seconds of the job's sketch, decoding included, of as many rows that lie in the backend's chunk buffers already: its first
/// chunks, again and again. Limits: a backend that computes where its buffers are, rows that are not kept
double sketch_seconds(RowSource& source, const SketchJob& job, Backend& backend);

}  // namespace tallsketch
