#include "src/resumable_pass.h"

#include <algorithm>
#include <deque>

#include "kernels/rounding.h"
#include "src/checkpoint_keeper.h"
#include "src/cleanup.h"
#include "src/communicator.h"
#include "src/row_pass.h"
#include "src/sketch_pass.h"
#include "src/solver.h"
#include "src/stop_request.h"

namespace tallsketch {

namespace {

/// Rows that are still to be read.
struct Piece {
  RowRange rows;
  bool known = false;  // in the checkpoint
};

/// Of this rank, in order. keeps  whether known rows are read, too
std::deque<Piece> pieces_of(RowRange rows, const std::vector<RowRange>& done, bool keeps) {
  std::deque<Piece> pieces;
  const auto add = [&](std::int64_t begin, std::int64_t end, bool known) {
    if (begin < end && (keeps || !known)) pieces.push_back({{begin, end}, known});
  };
  std::int64_t at = rows.begin;
  for (const RowRange& range : done) {
    const std::int64_t begin = std::clamp(range.begin, at, rows.end), end = std::clamp(range.end, at, rows.end);
    add(at, begin, false);
    add(begin, end, true);
    at = end;
  }
  add(at, rows.end, false);
  return pieces;
}

class ResumablePass {
 public:
  ResumablePass(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context)
      : job_(job),
        source_(source),
        backend_(backend),
        context_(context),
        keeper_(*context.keeper),
        pieces_(pieces_of(job.rows, keeper_.rows(), backend.keeps_rows())),
        b_squares_(static_cast<std::size_t>(job.shape.r), 0.0) {
    for (const Piece& piece : pieces_) rows_left_ += piece.rows.size();
    all_rows_ = rows_left_;
  }

  ResumedRows run() {
    const Communicator& comm = context_.comm;
    while (true) {
      const std::int64_t most = comm.max(chunks_left());
      std::int64_t agreed = Wish::kGoOn;
      if (most > 0) comm.together([&] { agreed = run_part(most); });
      const bool done = comm.max(rows_left_) == 0;
      if (done) agreed = comm.max(keeper_.wish_to_stop());
      const bool stops = Wish::stops(agreed);
      if (stops || (agreed == Wish::kSave && !done)) keeper_.save_sketch(backend_, sketched_, b_squares_, stops);
      if (stops) keeper_.stop(agreed);
      if (!done) continue;
      std::int64_t read = all_rows_;
      comm.sum(&read, 1);
      return {b_squares_, read};
    }
  }

 private:
  std::int64_t chunks_left() const {
    std::int64_t chunks = 0;
    for (const Piece& piece : pieces_) chunks += divide_up(piece.rows.size(), job_.plan.chunk_rows);
    return chunks;
  }

  /// Until all ranks agree on something else than to go on, or have read all. Every rank meets the same borders.
  std::int64_t run_part(std::int64_t most) {
    Borders borders(context_.comm, most, [&] { return keeper_.wish(); });
    try {
      bool goes_on = true;
      while (goes_on && !pieces_.empty()) {
        Piece& piece = pieces_.front();
        const std::int64_t begin = piece.rows.begin;
        piece.rows.begin = read_chunks(
            piece.rows, job_.plan.chunk_rows, source_, backend_, context_.timer,
            [&](const ChunkBuffer& chunk) { take(chunk, piece.known); },
            [&] { return goes_on = goes_on && borders.next() == Wish::kGoOn; });
        if (!piece.known && piece.rows.begin > begin) sketched_.push_back({begin, piece.rows.begin});
        if (piece.rows.empty()) pieces_.pop_front();
      }
    } catch (...) {
      borders.leave();
      throw;
    }
    return borders.finish();
  }

  void take(ChunkBuffer chunk, bool known) {
    if (!known) add_b_squares(chunk, job_.shape.r, b_squares_);
    chunk.known = known;
    rows_left_ -= chunk.rows.size();
    take_chunk("sketch", job_, chunk, all_rows_ - rows_left_, all_rows_, backend_, context_);
  }

  const SketchJob& job_;
  RowSource& source_;
  Backend& backend_;
  const SolveContext& context_;
  CheckpointKeeper& keeper_;
  std::deque<Piece> pieces_;
  std::int64_t rows_left_ = 0, all_rows_ = 0;
  std::vector<RowRange> sketched_;  // since the last save
  std::vector<double> b_squares_;   // of those
};

}  // namespace

ResumedRows upload_resumably(const SketchJob& job, RowSource& source, Backend& backend, const SolveContext& context) {
  const DeferSignals deferring;
  context.comm.together([&] { backend.begin(job); });
  return ResumablePass(job, source, backend, context).run();
}

}  // namespace tallsketch
