#include "src/row_shards.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/decode_host.h"
#include "kernels/half.h"
#include "kernels/rounding.h"

namespace tallsketch {

namespace {

bool is_by_columns(const StoredFacts& facts, bool transposed) { return facts.rank == 2 && facts.fortran != transposed; }

/// Widens what kernels compute with to FP64.
void widen(const std::byte* from, ElementType type, std::int64_t count, double* out) {
  const auto each = [&](const auto* values, auto to_double) { std::transform(values, values + count, out, to_double); };
  switch (type) {
    // Not by their names: a function that is always inlined is no callee where the compiler optimises little.
    case ElementType::kFloat16:
      each(reinterpret_cast<const std::uint16_t*>(from), [](std::uint16_t half) { return half_to_double(half); });
      return;
    case ElementType::kBfloat16:
      each(reinterpret_cast<const std::uint16_t*>(from), [](std::uint16_t half) { return bfloat16_to_double(half); });
      return;
    case ElementType::kFloat32:
      each(reinterpret_cast<const float*>(from), [](float value) { return double{value}; });
      return;
    case ElementType::kFloat64: std::copy_n(reinterpret_cast<const double*>(from), count, out); return;
  }
}

}  // namespace

// 8 MiB: many blocks for a team that reads (DirectReader::block_bytes), and little beside the chunks of a pass.
// b, of which there is little, is read in 256 KiB.
std::int64_t RowShards::staging_bytes = std::int64_t{8} << 20;

// What is decoded here is decoded by the thread that reads: it is little (b), or rare (shards that differ), and several
// threads would be a second set of them beside those that compute.
constexpr int kThreads = 1;

void RowShards::add(std::unique_ptr<StoredMatrix> data, bool transposed) {
  const std::int64_t first = shards_.empty() ? 0 : rows();
  const bool by_columns = is_by_columns(data->facts(), transposed);
  shards_.push_back({std::move(data), by_columns, first});
}

void RowShards::set_transposed(bool transposed) {
  std::int64_t first = 0;
  for (Shard& shard : shards_) {
    shard.by_columns = is_by_columns(shard.data->facts(), transposed);
    shard.first_row = first;
    first += shard.rows();
  }
}

std::int64_t RowShards::rows() const { return shards_.back().first_row + shards_.back().rows(); }

Encoding RowShards::encoding_of(const Shard& shard) {
  const StoredFacts& facts = shard.data->facts();
  return {facts.type, facts.swapped(), shard.by_columns && shard.cols() > 1};  // one column is the same both ways
}

std::optional<Encoding> RowShards::encoding() const {
  std::optional<Encoding> common;
  for (const Shard& shard : shards_) {
    if (shard.rows() == 0) continue;
    if (common && *common != encoding_of(shard)) return std::nullopt;
    common = encoding_of(shard);
  }
  return common ? common : encoding_of(front());
}

/// Calls f(shard, rows inside it, offset from rows.begin) for every shard that holds some of the rows.
template <class F>
void RowShards::for_each_part(RowRange rows, F&& f) {
  for (const Shard& shard : shards_) {
    const std::int64_t begin = std::max(rows.begin, shard.first_row);
    const std::int64_t end = std::min(rows.end, shard.first_row + shard.rows());
    if (begin < end) f(shard, RowRange{begin - shard.first_row, end - shard.first_row}, begin - rows.begin);
  }
}

/// Reads rows of one shard as they are stored. Of the shard read before, nothing stays in memory: a library's caches of all
/// shards would add up.
/// out     (rows, cols) or by columns, then `pitch` bytes from column to column
void RowShards::read_part(const Shard& shard, RowRange rows, std::byte* out, std::int64_t pitch) {
  if (last_read_ != nullptr && last_read_ != shard.data.get()) last_read_->release();
  last_read_ = shard.data.get();
  if (shard.by_columns) {
    shard.data->read_columns(rows, out, pitch);
  } else {
    shard.data->read_rows(rows, out);
  }
}

void RowShards::read_stored(RowRange rows, std::byte* out) {
  for_each_part(rows, [&](const Shard& shard, RowRange local, std::int64_t offset) {
    const std::int64_t width = shard.data->element_bytes();
    const std::int64_t place = shard.by_columns ? offset * width : offset * cols() * width;
    read_part(shard, local, out + place, rows.size() * width);
  });
}

RowShards::Staging RowShards::staging_of(const Shard& shard, bool to_doubles) const {
  const StoredType type = shard.data->facts().type;
  const std::int64_t stored = cols() * stored_size(type);
  const std::int64_t decoded = to_doubles ? cols() * element_size(element_type_of(type)) : 0;
  const std::int64_t room = to_doubles ? staging_bytes / 32 : staging_bytes;
  const std::int64_t rows = std::clamp<std::int64_t>(room / std::max<std::int64_t>(1, stored + decoded), 1,
                                                     std::max<std::int64_t>(1, shard.rows()));
  // Decoded elements begin where any of them may.
  return {rows, round_up(rows * stored, std::int64_t{8}), rows * decoded};
}

/// Calls f(stored elements, room for decoded ones, offset from rows.begin) for parts of the rows that fit the buffer.
template <class F>
void RowShards::for_each_staged(RowRange rows, bool to_doubles, F&& f) {
  for_each_part(rows, [&](const Shard& shard, RowRange local, std::int64_t offset) {
    const Staging staging = staging_of(shard, to_doubles);
    if (staging_.bytes() < staging.stored_bytes + staging.decoded_bytes) {
      staging_ = {};  // before the larger one is asked for
      staging_ = HostBuffer(staging.stored_bytes + staging.decoded_bytes);
    }
    for (std::int64_t begin = local.begin; begin < local.end; begin += staging.rows) {
      const RowRange piece{begin, std::min(local.end, begin + staging.rows)};
      read_part(shard, piece, staging_.data(), piece.size() * shard.data->element_bytes());
      f(EncodedView{staging_.data(), piece.size(), cols(), encoding_of(shard)}, staging_.data() + staging.stored_bytes,
        offset + begin - local.begin);
    }
  });
}

void RowShards::read_decoded(RowRange rows, ElementType out_type, std::byte* out) {
  if (encoding() == plain_encoding(out_type)) {
    read_stored(rows, out);
    return;
  }
  for_each_staged(rows, false, [&](const EncodedView& part, std::byte*, std::int64_t offset) {
    host::decode(part, out + offset * cols() * element_size(out_type), out_type, kThreads);
  });
}

void RowShards::read_doubles(RowRange rows, double* out) {
  if (encoding() == plain_encoding(ElementType::kFloat64)) {
    read_stored(rows, reinterpret_cast<std::byte*>(out));
    return;
  }
  for_each_staged(rows, true, [&](const EncodedView& part, std::byte* decoded, std::int64_t offset) {
    const ElementType type = element_type_of(part.encoding.type);
    host::decode(part, decoded, type, kThreads);
    widen(decoded, type, part.rows * part.cols, out + offset * cols());
  });
}

std::int64_t RowShards::buffer_bytes(bool stages, bool to_doubles) const {
  std::int64_t cache = 0, most_staged = 0;
  for (const Shard& shard : shards_) {
    const Staging staging = staging_of(shard, to_doubles);
    cache = std::max(cache, shard.data->facts().cache_bytes);
    most_staged = std::max(most_staged, staging.stored_bytes + staging.decoded_bytes);
  }
  return cache + (stages ? most_staged : 0);
}

std::int64_t RowShards::buffer_bytes(ElementType out_type) const {
  return buffer_bytes(encoding() != plain_encoding(out_type), false);
}

std::int64_t RowShards::buffer_bytes_of_doubles() const {
  return buffer_bytes(encoding() != plain_encoding(ElementType::kFloat64), true);
}

std::optional<StoredPlace> RowShards::place_of(std::int64_t row) const {
  for (const Shard& shard : shards_) {
    const std::int64_t local = row - shard.first_row;
    if (local >= 0 && local < shard.rows())
      return StoredPlace{shard.data->facts().path, shard.data->facts().name, local};
  }
  return std::nullopt;
}

std::string RowShards::identity() const {
  std::string text;
  for (const Shard& shard : shards_) {
    const StoredFacts& facts = shard.data->facts();
    text += fmt::format("{}{} {} {}{} at {}, file of {}", text.empty() ? "" : ", ", facts.name, shape_text(facts),
                        type_text(facts), shard.by_columns ? " by columns" : "", facts.place, facts.file_identity);
  }
  return text;
}

}  // namespace tallsketch
