#include "src/row_pass.h"

#include <deque>

#include "src/backend.h"
#include "src/read_ahead.h"
#include "src/row_source.h"

namespace tallsketch {

void add_b_squares(const ChunkBuffer& chunk, std::int64_t r, std::vector<double>& squares) {
  for (std::int64_t i = 0; i < chunk.rows.size(); ++i) {
    for (std::int64_t k = 0; k < r; ++k)
      squares[static_cast<std::size_t>(k)] += chunk.b[i * r + k] * chunk.b[i * r + k];
  }
}

std::int64_t read_chunks(RowRange rows, std::int64_t chunk_rows, RowSource& source, Backend& backend, PhaseTimer& timer,
                         const std::function<void(const ChunkBuffer&)>& take, const std::function<bool()>& go_on) {
  // Half of the buffers with the reader, the other half with the device: one there is copied while one is computed with.
  const auto most_ahead = static_cast<std::size_t>(std::max(1, backend.lanes() / 2));
  {
    ReadAhead reader(source);
    std::deque<ChunkBuffer> ahead;
    const auto take_oldest = [&] {
      reader.await();
      const ChunkBuffer chunk = ahead.front();
      ahead.pop_front();
      take(chunk);
    };
    while (!rows.empty() && go_on()) {
      const RowRange next{rows.begin, std::min(rows.begin + chunk_rows, rows.end)};
      rows.begin = next.end;
      ahead.push_back(backend.next_buffer(next));
      reader.request(ahead.back());
      if (ahead.size() > most_ahead) take_oldest();
    }
    while (!ahead.empty()) take_oldest();
    timer.add(Phase::kRead, reader.seconds());
  }
  source.check_unchanged();
  return rows.begin;
}

}  // namespace tallsketch
