#include "src/hdf5_chunks.h"

#include <algorithm>

#include <fmt/format.h>
#include <zlib.h>

#include "src/error.h"

namespace tallsketch {

namespace {

/// Bytes that a zlib stream becomes, if that is at most `most`; -1 where it is more, or no stream.
std::int64_t inflated_bytes(const std::vector<std::byte>& stream, std::int64_t most) {
  std::vector<std::byte> out(static_cast<std::size_t>(most));
  uLongf made = out.size();
  const int status = ::uncompress(reinterpret_cast<Bytef*>(out.data()), &made,
                                  reinterpret_cast<const Bytef*>(stream.data()), stream.size());
  return status == Z_OK ? static_cast<std::int64_t>(made) : -1;
}

/// Where filters keep the number of elements of a chunk that they were made for; -1: they do not.
int place_of_elements(H5Z_filter_t filter) {
  switch (filter) {
    case H5Z_FILTER_NBIT:         // H5Znbit.c: number of values, whether there is nothing to do, elements
    case H5Z_FILTER_SCALEOFFSET:  // H5Zscaleoffset.c: kind, factor, elements
      return 2;
    default: return -1;
  }
}

constexpr std::int64_t kMostSeen = std::int64_t{1} << 26;  // bits, 8 MiB
constexpr std::int64_t kFletcherBytes = 4, kSlackBytes = 4096;

}  // namespace

Hdf5Chunks::Hdf5Chunks(hid_t dataset, const std::string& where, std::int64_t rows, std::int64_t cols,
                       std::int64_t element_bytes) {
  const Hdf5Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  std::array<hsize_t, 2> chunk = {1, 1};
  check_h5(H5Pget_chunk(creation.get(), 2, chunk.data()), ErrorKind::kInput, "H5Pget_chunk");
  // HDF5 holds each to 32 bits, and their product and the element to 4 GiB.
  chunk_ = {static_cast<std::int64_t>(chunk[0]), static_cast<std::int64_t>(chunk[1])};
  shape_ = {rows, cols};
  grid_ = {(rows + chunk_[0] - 1) / chunk_[0], (cols + chunk_[1] - 1) / chunk_[1]};
  bytes_ = chunk_[0] * chunk_[1] * element_bytes;
  plain_ = bytes_;
  bool sizes_vary = false;
  const int filters = H5Pget_nfilters(creation.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::array<unsigned, 64> values{};
    std::size_t count = values.size();
    const H5Z_filter_t filter =
        H5Pget_filter2(creation.get(), static_cast<unsigned>(i), &flags, &count, values.data(), 0, nullptr, &config);
    const int place = place_of_elements(filter);
    require(
        place < 0 ||
            (count > static_cast<std::size_t>(place) && values[static_cast<std::size_t>(place)] == chunk[0] * chunk[1]),
        ErrorKind::kInput,
        fmt::format("{} is corrupt: its filters are those of other chunks than {} x {}", where, chunk[0], chunk[1]));
    if (filter == H5Z_FILTER_FLETCHER32) {
      plain_ += kFletcherBytes;  // behind the chunk, where zlib does not look
    } else if (filter == H5Z_FILTER_DEFLATE && !sizes_vary) {
      deflate_ = i;
      inflated_ = plain_;
      sizes_vary = true;
    } else if (filter != H5Z_FILTER_SHUFFLE || sizes_vary) {
      sizes_vary = true;
      inflated_ = 0;
    }
  }
  unsigned options = 0;
  H5Pget_chunk_opts(creation.get(), &options);
  border_plain_ = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
#if H5_VERSION_GE(1, 10, 5)
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  hsize_t written = 0;
  check_h5(H5Dget_num_chunks(dataset, space.get(), &written), ErrorKind::kInput, "H5Dget_num_chunks");
  missing_ = grid_[0] * grid_[1] - static_cast<std::int64_t>(written);
  require(missing_ >= 0, ErrorKind::kInput,
          fmt::format("{} is corrupt: it has {} chunks, and its shape asks for {} of {} x {}", where, written,
                      grid_[0] * grid_[1], chunk[0], chunk[1]));
  const hsize_t stored = H5Dget_storage_size(dataset);
  const hsize_t most = written * static_cast<hsize_t>(plain_);
  const hsize_t least = border_plain_ ? written * static_cast<hsize_t>(bytes_) : most;
  require(sizes_vary || (stored >= least && stored <= most), ErrorKind::kInput,
          fmt::format("{} is corrupt: its {} chunks claim {} bytes and need {}", where, written, stored, most));
#endif
}

void Hdf5Chunks::check([[maybe_unused]] hid_t dataset, [[maybe_unused]] RowRange rows, [[maybe_unused]] RowRange cols,
                       [[maybe_unused]] const std::string& what) {
#if H5_VERSION_GE(1, 10, 3)
  if (deflate_ < 0 || grid_[0] > kMostSeen / std::max<std::int64_t>(1, grid_[1])) return;
  seen_.resize(static_cast<std::size_t>(grid_[0] * grid_[1]));
  for (std::int64_t row = rows.begin / chunk_[0]; row * chunk_[0] < rows.end; ++row) {
    for (std::int64_t col = cols.begin / chunk_[1]; col * chunk_[1] < cols.end; ++col) {
      const auto at = static_cast<std::size_t>(row * grid_[1] + col);
      if (!seen_[at]) check_compressed(dataset, {row, col}, what);
      seen_[at] = true;
    }
  }
#endif
}

void Hdf5Chunks::check_compressed([[maybe_unused]] hid_t dataset, [[maybe_unused]] Index chunk,
                                  [[maybe_unused]] const std::string& what) {
#if H5_VERSION_GE(1, 10, 3)
  const std::array<hsize_t, 2> offset = {static_cast<hsize_t>(chunk.row * chunk_[0]),
                                         static_cast<hsize_t>(chunk.col * chunk_[1])};
  hsize_t stored = 0;
  const bool known = H5Dget_chunk_storage_size(dataset, offset.data(), &stored) >= 0;
  H5Eclear2(H5E_DEFAULT);  // a chunk that was never written
  if (!known || stored == 0) return;
  const bool border = (chunk.row + 1) * chunk_[0] > shape_[0] || (chunk.col + 1) * chunk_[1] > shape_[1];
  if (border_plain_ && border) {  // HDF5 reads it without a look at any filter
    require(stored == static_cast<hsize_t>(bytes_), ErrorKind::kInput,
            fmt::format("{}: the chunk at ({}, {}) claims {} bytes, and is stored plain in {}; the file is corrupt",
                        what, offset[0], offset[1], stored, bytes_));
    return;
  }
  if (stored == static_cast<hsize_t>(plain_)) return;
  // zlib adds little to what it cannot make smaller.
  require(stored <= 2 * static_cast<hsize_t>(plain_) + kSlackBytes, ErrorKind::kInput,
          fmt::format("{}: the chunk at ({}, {}) claims {} bytes, for {}; the file is corrupt", what, offset[0],
                      offset[1], stored, plain_));
  std::vector<std::byte> raw(static_cast<std::size_t>(stored));
  std::uint32_t skipped = 0;
  check_h5(H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &skipped, raw.data()), ErrorKind::kInput, what);
  require((skipped >> deflate_ & 1U) == 0, ErrorKind::kInput,
          fmt::format("{}: the chunk at ({}, {}) says that it is not compressed, but has {} bytes, not {}", what,
                      offset[0], offset[1], stored, plain_));
  if (sized_ || inflated_ == 0 || skipped != 0) return;
  const std::int64_t made = inflated_bytes(raw, inflated_);
  require(made == inflated_, ErrorKind::kInput,
          fmt::format("{}: the chunk at ({}, {}) does not decompress to the {} bytes of its shape; the file is corrupt",
                      what, offset[0], offset[1], inflated_));
  sized_ = true;
#endif
}

}  // namespace tallsketch
