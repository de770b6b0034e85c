#include "src/row_shards.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/decode_host.h"
#include "kernels/half.h"

namespace tallsketch {

namespace {

bool is_by_columns(const StoredFacts& facts, bool transposed) { return facts.rank == 2 && facts.fortran != transposed; }

/// Reads rows of one shard as they are stored.
/// out     (rows, cols) or by columns, then `pitch` bytes from column to column
void read_part(const RowShards::Shard& shard, RowRange rows, std::byte* out, std::int64_t pitch) {
  if (shard.by_columns) {
    shard.data->read_columns(rows, out, pitch);
  } else {
    shard.data->read_rows(rows, out);
  }
}

/// Widens what kernels compute with to FP64.
void widen(const std::byte* from, ElementType type, std::int64_t count, double* out) {
  const auto each = [&](const auto* values, auto to_double) { std::transform(values, values + count, out, to_double); };
  switch (type) {
    case ElementType::kFloat16: each(reinterpret_cast<const std::uint16_t*>(from), half_to_double); return;
    case ElementType::kBfloat16: each(reinterpret_cast<const std::uint16_t*>(from), bfloat16_to_double); return;
    case ElementType::kFloat32:
      each(reinterpret_cast<const float*>(from), [](float value) { return double{value}; });
      return;
    case ElementType::kFloat64: std::copy_n(reinterpret_cast<const double*>(from), count, out); return;
  }
}

}  // namespace

// 32 MiB: long reads, and little beside the chunks of a pass.
std::int64_t RowShards::staging_bytes = std::int64_t{32} << 20;

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
  return {facts.type, facts.swapped, shard.by_columns && shard.cols() > 1};  // one column is the same both ways
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

void RowShards::read_stored(RowRange rows, std::byte* out) {
  for_each_part(rows, [&](const Shard& shard, RowRange local, std::int64_t offset) {
    const std::int64_t width = shard.data->element_bytes();
    const std::int64_t place = shard.by_columns ? offset * width : offset * cols() * width;
    read_part(shard, local, out + place, rows.size() * width);
  });
}

/// Calls f(stored elements, offset from rows.begin) for parts of the rows that fit the buffer.
template <class F>
void RowShards::for_each_staged(RowRange rows, F&& f) {
  for_each_part(rows, [&](const Shard& shard, RowRange local, std::int64_t offset) {
    const std::int64_t width = shard.data->element_bytes(), row_bytes = std::max<std::int64_t>(1, cols() * width);
    const std::int64_t most = std::max<std::int64_t>(1, staging_bytes / row_bytes);
    for (std::int64_t begin = local.begin; begin < local.end; begin += most) {
      const RowRange piece{begin, std::min(local.end, begin + most)};
      staging_.resize(static_cast<std::size_t>(piece.size() * row_bytes));
      read_part(shard, piece, staging_.data(), piece.size() * width);
      f(EncodedView{staging_.data(), piece.size(), cols(), encoding_of(shard)}, offset + begin - local.begin);
    }
  });
}

void RowShards::read_decoded(RowRange rows, ElementType out_type, std::byte* out) {
  if (encoding() == plain_encoding(out_type)) {
    read_stored(rows, out);
    return;
  }
  for_each_staged(rows, [&](const EncodedView& part, std::int64_t offset) {
    host::decode(part, out + offset * cols() * element_size(out_type), out_type, threads_);
  });
}

void RowShards::read_doubles(RowRange rows, double* out) {
  if (encoding() == plain_encoding(ElementType::kFloat64)) {
    read_stored(rows, reinterpret_cast<std::byte*>(out));
    return;
  }
  for_each_staged(rows, [&](const EncodedView& part, std::int64_t offset) {
    const ElementType type = element_type_of(part.encoding.type);
    const std::int64_t count = part.rows * part.cols;
    natural_.resize(static_cast<std::size_t>(count * element_size(type)));
    host::decode(part, natural_.data(), type, threads_);
    widen(natural_.data(), type, count, out + offset * cols());
  });
}

std::int64_t RowShards::buffer_bytes() const {
  std::int64_t bytes = encoding() ? 0 : staging_bytes;
  for (const Shard& shard : shards_) bytes += shard.data->facts().cache_bytes;
  return bytes;
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
